package etcdctl

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// ctlVariable makes this binary etcdctl itself: its main function calls no more
// than ctlv3.MustStart.
const ctlVariable = "PAWL_INTEROP_ETCDCTL"

func TestMain(m *testing.M) {
	if os.Getenv(ctlVariable) != "" {
		ctlv3.MustStart()
		os.Exit(0)
	}
	if os.Getenv(utlVariable) != "" {
		os.Exit(utl())
	}
	testscale.SideBySide(9) // those that run so wait for leases
	goleak.VerifyTestMain(m)
}

// bench is an etcd with a client of ours, and etcdctl.
type bench struct {
	t        *testing.T
	ctx      context.Context
	endpoint string
	pawl     *pawl.Client
	kv       pb.KVClient
}

func start(t *testing.T) *bench {
	t.Helper()
	s := etcdtest.StartWith(t, etcdtest.Options{Heartbeat: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	t.Cleanup(cancel)
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &bench{t, ctx, s.Endpoints()[0], c, pb.NewKVClient(s.Conn(t))}
}

func (b *bench) session() *pawl.Session {
	b.t.Helper()
	s, err := b.pawl.NewSession(b.ctx, lease.Options{TTL: 10 * time.Second})
	require.NoError(b.t, err)
	return s
}

// queued waits until n keys are under name.
func (b *bench) queued(name string, n int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		r, err := b.kv.Range(b.ctx, &pb.RangeRequest{Key: []byte(name + "/"), RangeEnd: []byte(name + "0"), CountOnly: true})
		return err == nil && r.Count == n
	}, testscale.Hang, 5*time.Millisecond)
}

// ctl is an etcdctl under way.
type ctl struct {
	b     *bench
	cmd   *exec.Cmd
	lines chan string // what it says
}

func (b *bench) etcdctl(args ...string) *ctl {
	b.t.Helper()
	c := &ctl{b: b, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), ctlVariable+"=1", "ETCDCTL_ENDPOINTS="+b.endpoint)
	var complaints bytes.Buffer
	c.cmd.Stderr = &complaints
	out, err := c.cmd.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, c.cmd.Start())
	go func() { // ends with the process
		defer close(c.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			c.lines <- in.Text()
		}
	}()
	b.t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			for range c.lines {
			}
			_ = c.cmd.Wait()
		}
		if b.t.Failed() {
			b.t.Logf("etcdctl %q: %s", args, &complaints)
		}
	})
	return c
}

// says is its next line.
func (c *ctl) says() string {
	c.b.t.Helper()
	select {
	case line, ok := <-c.lines:
		require.True(c.b.t, ok, "it has ended")
		return line
	case <-c.b.ctx.Done():
		require.FailNow(c.b.t, "it says nothing")
	}
	return ""
}

// waits checks that it has nothing to say.
func (c *ctl) waits() {
	c.b.t.Helper()
	select {
	case line, ok := <-c.lines:
		require.Fail(c.b.t, "it does not wait", "%q, %v", line, ok)
	case <-time.After(100 * time.Millisecond):
	}
}

// ends has it end as Ctrl-C does, or by itself.
func (c *ctl) ends(interrupt bool) (code int, rest string) {
	c.b.t.Helper()
	if interrupt {
		require.NoError(c.b.t, c.cmd.Process.Signal(syscall.SIGINT))
	}
	var said []string
	for line := range c.lines {
		said = append(said, line)
	}
	err := c.cmd.Wait()
	if c.cmd.ProcessState == nil {
		assert.NoError(c.b.t, err)
	}
	return c.cmd.ProcessState.ExitCode(), strings.Join(said, " ")
}
