package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rotators hold a lock with the token that is in a file. At a line on stdin they acquire another one with
// what is there then, and say whether the first is still held.
var rotators = map[string][]string{
	"Python": {"python3", "-c", `
import sys, pathlib
sys.path.insert(0, "../../clients/python")
import pawld
with pawld.Session(address=("127.0.0.1", int(sys.argv[1])), token=pathlib.Path(sys.argv[2])) as s:
    one = s.acquire("py/1", timeout=30)
    print("held", flush=True)
    sys.stdin.readline()
    s.acquire("py/2", timeout=30)
    print(one.held(), flush=True)
`},
	"Python with asyncio": {"python3", "-c", `
import asyncio, sys, pathlib
sys.path.insert(0, "../../clients/python")
from pawld import aio
async def main():
    async with aio.Session(address=("127.0.0.1", int(sys.argv[1])), token=pathlib.Path(sys.argv[2])) as s:
        one = await s.acquire("aio/1", timeout=30)
        print("held", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        await s.acquire("aio/2", timeout=30)
        print(one.held(), flush=True)
asyncio.run(main())
`},
	"Node": {"node", "-e", `
const { Session } = require("../../clients/node");
(async () => {
  const s = new Session({ url: "http://127.0.0.1:" + process.argv[1], token: { file: process.argv[2] } });
  const one = await s.acquire("node/1", { timeout: 30000 });
  console.log("held");
  await new Promise((done) => process.stdin.once("data", done));
  await s.acquire("node/2", { timeout: 30000 });
  console.log(one.held() ? "True" : "False");
  await s.close();
  process.stdin.destroy();
})();
`},
}

// A token is replaced while pawld runs and clients hold locks: nobody loses one, and nothing is restarted.
// rule: V7
func TestATokenIsReplacedWhileClientsHoldLocks(t *testing.T) {
	t.Parallel()
	const first, second = "first-0123456789abcdef", "second-0123456789abcdef"
	dir := t.TempDir()
	token, policy := filepath.Join(dir, "token"), filepath.Join(dir, "policy")
	require.NoError(t, os.WriteFile(token, []byte(first+"\n"), 0o600))
	require.NoError(t, os.WriteFile(policy, []byte("token:local py/ aio/ node/\n"), 0o600))
	p := start(t, ofShared(t), "", "--listen", "127.0.0.1:0", "--token-file", token, "--policy", policy)
	leader := func(token string) int {
		status, _, err := post(http.DefaultClient, "http://"+p.address()+"/pawl.v1.Locks/Leader", `{"name":"py/1"}`, "Authorization", "Bearer "+token)
		require.NoError(t, err)
		return status
	}
	_, port, err := net.SplitHostPort(p.address())
	require.NoError(t, err)
	type running struct {
		*exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	clients := map[string]running{}
	for name, command := range rotators {
		cmd := exec.Command(command[0], append(command[1:len(command):len(command)], port, token)...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		clients[name] = running{cmd, in, bufio.NewReader(out)}
		line, err := clients[name].out.ReadString('\n')
		require.NoError(t, err, name)
		require.Equal(t, "held\n", line, name)
	}
	require.NoError(t, os.WriteFile(token+".new", []byte(second+"\n"), 0o600))
	require.NoError(t, os.Rename(token+".new", token))
	for name, c := range clients {
		_, err := io.WriteString(c.in, "\n")
		require.NoError(t, err)
		line, err := c.out.ReadString('\n')
		require.NoError(t, err, name)
		assert.Equal(t, "True\n", line, name)
		assert.NoError(t, c.Wait(), name)
	}
	assert.Equal(t, http.StatusUnauthorized, leader(first))
	assert.Equal(t, http.StatusOK, leader(second))
}
