package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// holders acquire n in a session that is bound to their process, say so, and hold it.
var holders = map[string][]string{
	"python": {"python3", "-c", `
import sys, time
sys.path.insert(0, "../../clients/python")
import pawld
lock = pawld.Session(sys.argv[1], ttl=150, bind=True).acquire("n", timeout=150)
print("HELD", flush=True)
while True:
    time.sleep(1)
`},
	"node": {"node", "-e", `
const { Session } = require("../../clients/node");
new Session({ socket: process.argv[1], ttl: 150000, bind: true }).acquire("n", { timeout: 150000 }).then(() => console.log("HELD"));
`},
}

// bindable skips a test where the kernel is too old for what pawld then refuses.
func bindable(t *testing.T, p *pawld) {
	body := object{"session": hex32(99), "requestId": hex32(99), "names": []string{"probe"}, "mode": "EXCLUSIVE", "bind": true}
	_, out := p.raw("Acquire", marshal(body))
	if text, _ := out["message"].(string); strings.Contains(text, "SO_PEERPIDFD") {
		assert.Equal(t, "failed_precondition", out["code"])
		skip(t, text)
	}
	p.acquire(body)
	p.call("Release", object{"session": hex32(99)})
}

// The next one has it when the process was killed, and not after its TTL of 150 s: before another
// client, which is silent meanwhile, has lost what it holds for 30 s.
func TestABoundSessionEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	p := start(t, etcd, "", "--max-ttl", "150s")
	bindable(t, p)
	for language, args := range holders {
		cmd := exec.Command(args[0], append(args[1:], p.socket)...)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HELD\n", line, language)
		n := await(t, etcd, "n")
		silent := object{"session": newID(), "requestId": newID(), "names": []string{language}, "mode": "EXCLUSIVE", "ttlMs": 30000, "waitMs": 5000}
		p.acquire(silent)
		m := await(t, etcd, language)
		require.NoError(t, cmd.Process.Kill())
		h := n.wins(0.0)
		assert.Empty(t, m.held, language)
		require.NoError(t, h.Release(t.Context()))
		_ = cmd.Wait()
	}
}

// Heartbeats stay necessary; a restart ends the binding, and another Acquire requests it again.
func TestABindingIsNoHeartbeatAndEndsWithARestart(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	args := []string{"--state-dir", filepath.Join(t.TempDir(), "state")}
	p := start(t, etcd, "", args...)
	bindable(t, p)
	body := object{"session": hex32(1), "requestId": hex32(1), "names": []string{"kept"}, "mode": "EXCLUSIVE", "ttlMs": longest.Milliseconds(), "bind": true}
	p.acquire(body)
	p.stop(syscall.SIGTERM)
	p = start(t, etcd, p.socket, args...)
	p.acquire(body) // with the same parameters
	p.acquire(object{"session": hex32(2), "requestId": hex32(2), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": ttl.Milliseconds(), "bind": true})
	n := await(t, etcd, "n")
	n.wins(0.0)
}

func TestBindIsRefusedWhereNoProcessIsSeen(t *testing.T) {
	t.Parallel()
	_, _, call := overTCP(t, ofShared(t))
	_, err := persistent(call)("Acquire", object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "bind": true})
	require.Error(t, err)
	assert.Contains(t, fmt.Sprint(err), "bind is for the Unix socket")
}

// orphan makes a connection in a process that exits, and requests bind in its child; with a second
// argument, when it has been waited for.
const orphan = `
import http.client, json, os, socket, sys, time
def request(c, maker):
    while os.getppid() == maker:
        time.sleep(0.001)
    os.read(reaped, 1)
    h = http.client.HTTPConnection("pawl")
    h.sock = c
    h.request("POST", "/pawl.v1.Locks/Acquire", sys.argv[2], {"Content-Type": "application/json"})
    print(h.getresponse().read().decode(), flush=True)
reaped, done = os.pipe()
maker = os.fork()
if maker == 0:
    c = socket.socket(socket.AF_UNIX)
    c.connect(sys.argv[1])
    h = http.client.HTTPConnection("pawl")
    h.sock = c
    h.request("POST", "/pawl.v1.Locks/Leader", '{"name":"n"}', {"Content-Type": "application/json"})
    h.getresponse().read()  # pawld has accepted the connection
    maker = os.getpid()
    if os.fork() == 0:
        request(c, maker)
    os._exit(0)
if len(sys.argv) > 3:
    os.waitpid(maker, 0)
os.write(done, b"x")
if len(sys.argv) == 3:
    time.sleep(1)  # it remains a zombie until then
`

// A process that has exited does not exit again: such a binding would end at once, or never.
func TestBindToAProcessThatHasExitedIsRefusedForGood(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "")
	bindable(t, p)
	p.warm()
	for name, more := range map[string][]string{"exited": nil, "exited, and waited for": {"wait"}} {
		body := marshal(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "bind": true, "waitMs": 5000})
		out, err := exec.CommandContext(t.Context(), "timeout", append([]string{"30", "python3", "-c", orphan, p.socket, body}, more...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		var answer object
		require.NoError(t, json.Unmarshal(out, &answer), "%s: %s", name, out)
		assert.Equal(t, "failed_precondition", answer["code"], "%s: %v", name, answer)
		assert.Contains(t, answer["message"], "has exited", name)
	}
	assert.Equal(t, "HELD", p.call("Acquire", object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "bind": true, "waitMs": 5000})["state"], "the session is not harmed")
}
