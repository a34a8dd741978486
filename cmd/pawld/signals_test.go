package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// What each signal does to a pawld that holds a lock, with a state directory: a successor has the lock,
// or it is free.
func TestEachSignalEndsPawldInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		sig  syscall.Signal
		kept bool
	}{
		"TERM leaves the locks": {syscall.SIGTERM, true},
		"HUP leaves the locks":  {syscall.SIGHUP, true},
		"INT releases them":     {syscall.SIGINT, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd, dir := ofOwn(t), filepath.Join(t.TempDir(), "state")
			p := start(t, etcd, "", "--state-dir", dir, "--max-ttl", "3s")
			p.signal(syscall.SIGPIPE) // as if nobody read its output any more
			p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 3000, "waitMs": 3000})
			p.signal(c.sig)
			p.awaitEnd(0)
			_, err := os.Stat(filepath.Join(dir, "state.json"))
			assert.Equal(t, c.kept, err == nil, "%v", err)
		})
	}
}

// Nobody reads what pawld logs. It continues to serve, and leaves its locks to the next one.
func TestAClosedStandardErrorEndsNothing(t *testing.T) {
	t.Parallel()
	etcd, dir, socket := ofOwn(t), filepath.Join(t.TempDir(), "state"), launch.Socket(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "--endpoints", etcd.Addr(), "--socket", socket, "--state-dir", dir, "--verbose")
	cmd.Stderr = write
	require.NoError(t, read.Close())
	p := beginCmd(t, cmd)
	require.NoError(t, write.Close())
	p.http = unixClient(socket)
	p.waitFor(socket)
	p.hold(1, 1, "n")         // it serves: before that, a signal leaves no state
	p.signal(syscall.SIGTERM) // which it logs
	assert.Zero(t, p.wait())
	left := stateIn(t, dir)
	require.Len(t, left.Sessions, 1)
	assert.Len(t, left.Sessions[0].Rows, 1)
}

// A signal that comes before it has connected: it ends in order, and what a predecessor left is as it was.
func TestASignalBeforeThereIsAClientEndsPawldInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	file, left := filepath.Join(dir, "state.json"), []byte("not read")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(file, left, 0o600))
	o, err := parse([]string{"--endpoints", "127.0.0.1:1", "--socket", launch.Socket(t), "--state-dir", dir}, io.Discard)
	require.NoError(t, err)
	ctx, signal := context.WithCancel(t.Context())
	signal()
	require.NoError(t, serve(ctx, o, slog.New(slog.DiscardHandler), nil))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, left, got)
}

// A state directory that hangs, and an operator who does not wait: the second signal ends it, which
// another hangup does not.
func TestASecondSignalEndsAllWaiting(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	socket := launch.Socket(t)
	cmd := exec.Command(os.Args[0], append(ofShared(t).flags(), "--socket", socket, "--state-dir", dir)...)
	cmd.Env = []string{hurriedEnv + "=1ms"} // what remains never ends
	p := beginCmd(t, cmd)
	p.http = unixClient(socket)
	p.waitFor(socket)
	p.hold(1, 1, "n")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "state.json.new"), 0o600)) // which nobody reads
	p.signal(syscall.SIGHUP)
	p.awaitSaid("stopping")
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGTERM)
	p.awaitEnd(exitFailed)
	assert.Contains(t, p.said(), `"not waiting any more" signal=terminated`)
}

// awaitEnd waits for the end of the process, however long that takes.
func (p *pawld) awaitEnd(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(testscale.Hang):
		p.t.Fatal("pawld does not end: " + p.said())
	}
	require.Equal(p.t, code, p.cmd.ProcessState.ExitCode(), p.said())
}

// A state directory that hangs is given up, so that the locks go to others.
func TestAWriteOfTheStateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		failed := errors.New("failed")
		for name, c := range map[string]struct {
			write func(service.Saved) error
			want  string
			after time.Duration
		}{
			"it hangs":  {func(service.Saved) error { <-hang; return nil }, "not written within 5s", stateWait},
			"it fails":  {func(service.Saved) error { return failed }, "failed", 0},
			"it writes": {func(service.Saved) error { return nil }, "", 0},
		} {
			begin := time.Now()
			err := bounded(c.write)(service.Saved{})
			assert.Equal(t, c.after, time.Since(begin), name)
			if c.want == "" {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorContains(t, err, c.want, name)
		}
	})
}
