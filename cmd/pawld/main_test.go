package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// The test binary is pawld, too, and a client of it, so that each test has real processes of
// them.
func TestMain(m *testing.M) {
	if os.Getenv(driveEnv) != "" {
		drive(os.Args[1], os.Args[2])
		return
	}
	if os.Getenv("PAWLD_TEST_RUN") != "" {
		rehearsalWait, hurriedWait = testscale.Hang, testscale.Hang // a slow machine's etcd and disk are not what is tested
		if wait, err := time.ParseDuration(os.Getenv(hurriedEnv)); err == nil {
			hurriedWait = wait
		}
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signalled()))
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: processes of this one are to find the default
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscale.SideBySide(testscale.Of(16, 4)) // most wait for processes and leases; in the proof they compute, too
	code := m.Run()
	stopShared()
	os.Exit(code)
}

// hurriedEnv holds how long the remaining work of a pawld may take after a second signal.
const hurriedEnv = "PAWLD_TEST_HURRIED"

// pawld is a process.
type pawld struct {
	t      *testing.T
	cmd    *exec.Cmd
	socket string
	http   *http.Client
	done   chan struct{} // closed when it has ended

	mu     sync.Mutex
	stderr bytes.Buffer
}

// Write implements io.Writer, as its standard error.
func (p *pawld) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *pawld) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// start starts one on a new socket, or the one given, and returns once it serves.
func start(t *testing.T, etcd *space, socket string, args ...string) *pawld {
	t.Helper()
	if socket == "" {
		socket = launch.Socket(t)
	}
	p := begin(t, slices.Concat(etcd.flags(), []string{"--socket", socket}, args)...)
	p.socket = socket
	p.http = unixClient(socket)
	p.waitFor(socket)
	return p
}

// waitFor returns when a socket can be connected to, which is before it serves: calls are answered then.
func (p *pawld) waitFor(socket string) {
	p.t.Helper()
	eventually(p.t, func() bool { return launch.Listens(socket) || p.ended() })
	require.False(p.t, p.ended(), p.said())
}

// begin starts a process.
func begin(t *testing.T, args ...string) *pawld {
	t.Helper()
	return beginCmd(t, exec.Command(os.Args[0], args...))
}

// ownGroup makes a process that is to be stopped run in a separate process group, so that no other
// process wakes it. In an orphaned group, the kernel does so when one of the group ends whose parent
// is in another.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
}

func beginCmd(t *testing.T, cmd *exec.Cmd) *pawld {
	t.Helper()
	p := &pawld{t: t, cmd: cmd, done: make(chan struct{})}
	others := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ETCDCTL_ENDPOINTS=") || strings.HasPrefix(v, "PAWL_NAMESPACE=")
	})
	p.cmd.Env = slices.Concat(others, []string{"PAWLD_TEST_RUN=1"}, cmd.Env)
	if p.cmd.Stderr == nil {
		p.cmd.Stderr = p
	}
	ownGroup(p.cmd)
	require.NoError(t, p.cmd.Start())
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Log(p.said())
		}
	})
	return p
}

func (p *pawld) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *pawld) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// stop sends a signal, and waits for the end.
func (p *pawld) stop(sig syscall.Signal) {
	p.t.Helper()
	p.signal(sig)
	p.wait()
}

func (p *pawld) wait() (code int) {
	p.t.Helper()
	receive(p.t, p.done, "pawld does not end: "+p.said())
	return p.cmd.ProcessState.ExitCode()
}

func unixClient(socket string) *http.Client {
	return &http.Client{Transport: launch.Transport(socket)}
}

// skip skips a test, and notes it in the file that .ci/run shows at its end.
func skip(t *testing.T, why string) {
	t.Helper()
	testscale.Skipped(fmt.Sprintf("SKIPPED: %s of cmd/pawld: %s", t.Name(), why))
	t.Skip(why)
}

// object is JSON.
type object = map[string]any

// post calls, and returns the status and the answer.
func post(client *http.Client, url string, body string, header ...string) (int, object, error) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, nil, err
	}
	var out object
	if json.Unmarshal(b, &out) != nil {
		out = object{"message": string(b)}
	}
	return resp.StatusCode, out, nil
}

const api = "http://pawl/pawl.v1.Locks/"

// raw calls with a body as it is.
func (p *pawld) raw(method, body string, header ...string) (int, object) {
	p.t.Helper()
	status, out, err := post(p.http, api+method, body, header...)
	require.NoError(p.t, err)
	return status, out
}

// call calls, and wants a success.
func (p *pawld) call(method string, body object) object {
	p.t.Helper()
	b, err := json.Marshal(body)
	require.NoError(p.t, err)
	status, out := p.raw(method, string(b))
	require.Equal(p.t, 200, status, "%s %s: %v", method, b, out)
	return out
}

// hex32 is an ID that is as good as random.
func hex32(n int) string { return fmt.Sprintf("%032x", n*7919+0x1234567890) }

func lockOf(out object) object { l, _ := out["lock"].(object); return l }

// hold holds a name until it is released: longer than a test of that takes.
func (p *pawld) hold(session, id int, name string) object {
	p.t.Helper()
	return p.acquire(object{"session": hex32(session), "requestId": hex32(id), "names": []string{name}, "mode": "EXCLUSIVE", "ttlMs": longest.Milliseconds(), "waitMs": 5000})
}

// acquire calls Acquire until it holds: a pawld that has just begun may need longer for its first
// session than it parks a call.
func (p *pawld) acquire(body object) object {
	p.t.Helper()
	var out object
	eventually(p.t, func() bool {
		var err error
		out, err = p.patient("Acquire", body)
		return err != nil || out["state"] != "WAITING"
	})
	require.Equal(p.t, "HELD", out["state"], out)
	return lockOf(out)
}

func (p *pawld) locks(session int) (all []object) {
	p.t.Helper()
	list, _ := p.call("Renew", object{"session": hex32(session)})["locks"].([]any)
	for _, l := range list {
		all = append(all, l.(object))
	}
	return all
}

// warm waits until it has its session at etcd, which the first call that needs one may otherwise
// have to wait for, longer than it is parked.
func (p *pawld) warm() {
	p.t.Helper()
	p.acquire(object{"session": hex32(999), "requestId": hex32(999), "names": []string{"warm"}, "mode": "EXCLUSIVE", "waitMs": 5000})
	p.call("Release", object{"session": hex32(999)})
}

func marshal(v object) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
