package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// activated starts one with sockets passed in, as systemd does, starting at descriptor 3.
// LISTEN_PID is set to pid, or to the process's number if that is "".
func activated(t *testing.T, pid string, sockets []*os.File, args ...string) *pawld {
	t.Helper()
	if pid == "" {
		pid = "$$"
	}
	script := fmt.Sprintf(`LISTEN_PID=%s LISTEN_FDS=%d exec "$0" "$@"`, pid, len(sockets))
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, os.Args[0]}, args...)...)
	cmd.ExtraFiles = sockets
	return beginCmd(t, cmd)
}

func TestASocketThatIsPassedInOutlivesEachPawld(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	path := launch.Socket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	socket, err := l.File()
	require.NoError(t, err)
	defer socket.Close()
	args := append(etcd.flags(), "--state-dir", filepath.Join(t.TempDir(), "state"), "--socket", "/nobody/serves/this")
	p := activated(t, "", []*os.File{socket}, args...)
	p.http = unixClient(path)
	held := p.hold(1, 1, "n") // waits for pawld in the socket's queue
	p.stop(syscall.SIGTERM)
	require.Equal(t, 0, p.cmd.ProcessState.ExitCode(), p.said())

	answer := make(chan object, 1)
	go func() { // while nobody serves
		_, out, _ := post(unixClient(path), api+"Renew", marshal(object{"session": hex32(1)}))
		answer <- out
	}()
	activated(t, "", []*os.File{socket}, args...)
	out := receive(t, answer)
	all, _ := out["locks"].([]any)
	require.Len(t, all, 1, out)
	assert.Equal(t, "HELD", all[0].(object)["state"])
	assert.Equal(t, held["token"], all[0].(object)["token"])
}

func TestWhatIsPassedInAndIsNotOursIsRefusedOrLeft(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	socket, err := tcp.(*net.TCPListener).File()
	require.NoError(t, err)
	defer socket.Close()
	p := activated(t, "", []*os.File{socket})
	assert.Equal(t, 1, p.wait())
	assert.Contains(t, p.said(), "was passed in is no Unix socket")

	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	p = activated(t, "", []*os.File{file})
	assert.Equal(t, 1, p.wait())
	assert.Contains(t, p.said(), "socket 3 that was passed in")

	path := launch.Socket(t) // meant for another process
	p = activated(t, "1", []*os.File{socket}, "--socket", path, "--endpoints", "127.0.0.1:1")
	p.http = &http.Client{}
	p.waitFor(path)
}
