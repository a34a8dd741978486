package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/statefile"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// noSpace raises the alarm, until disarm is called.
func noSpace(t *testing.T, etcd *space) (disarm func()) {
	t.Helper()
	alarms := etcdpb.NewMaintenanceClient(etcd.Conn(t))
	raised, err := alarms.Alarm(t.Context(), &etcdpb.AlarmRequest{Action: etcdpb.AlarmRequest_ACTIVATE, Alarm: etcdpb.AlarmType_NOSPACE})
	require.NoError(t, err)
	return func() {
		for _, a := range raised.Alarms {
			_, err := alarms.Alarm(context.Background(), &etcdpb.AlarmRequest{Action: etcdpb.AlarmRequest_DEACTIVATE, Alarm: a.Alarm, MemberID: a.MemberID})
			assert.NoError(t, err)
		}
	}
}

func (p *pawld) awaitSaid(text string) {
	p.t.Helper()
	eventually(p.t, func() bool { return strings.Contains(p.said(), text) }, text)
}

// A successor could take nothing over: pawld serves on until it could.
func TestPawldServesOnWhileEtcdIsOutOfSpace(t *testing.T) {
	t.Parallel()
	etcd := ofOwn(t)
	args := []string{"--state-dir", filepath.Join(t.TempDir(), "state"), "--health", "127.0.0.1:0"}
	p := start(t, etcd, "", args...)
	held := p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000})
	disarm := noSpace(t, etcd)
	eventually(t, func() bool {
		status, text := p.health("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "NOSPACE")
	})
	assert.Equal(t, "0", p.metrics()["pawld_ready"])
	status, _ := p.health("/livez")
	assert.Equal(t, http.StatusOK, status)
	p.signal(syscall.SIGTERM)
	p.awaitSaid("etcd is out of space (NOSPACE)")
	all := p.locks(1)
	require.Len(t, all, 1)
	require.Equal(t, "HELD", all[0]["state"])
	disarm()
	require.Equal(t, 0, p.wait())
	p = start(t, etcd, p.socket, args...)
	all = p.locks(1)
	require.Len(t, all, 1)
	assert.Equal(t, "HELD", all[0]["state"])
	assert.Equal(t, held["token"], all[0]["token"])
}

// stateIn is what the directory, which no process has, leaves to the next one.
func stateIn(t *testing.T, dir string) service.Saved {
	t.Helper()
	d, err := statefile.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	left, ok, err := d.Read()
	require.NoError(t, err)
	require.True(t, ok)
	return left
}

// A pawld that cannot remove what it has taken over serves nobody: its successor would know nothing
// of what it holds.
func TestAPawldWhoseStateStaysServesNobody(t *testing.T) {
	t.Parallel()
	etcd := ofOwn(t)
	dir := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(dir, "state.json")
	args := []string{"--endpoints", etcd.Addr(), "--socket", launch.Socket(t), "--state-dir", dir, "--health", "127.0.0.1:0"}
	p := start(t, etcd, "", "--state-dir", dir)
	p.hold(1, 1, "n")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 0, p.wait())
	disarm := noSpace(t, etcd)
	next := begin(t, args...)
	eventually(t, func() bool { // it has read it, and waits for space
		var s service.Saved
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &s))
		return s.Handle == s.Claimed().Handle
	}, "claimed")
	require.NoError(t, os.Rename(file, file+".kept"))
	require.NoError(t, os.MkdirAll(filepath.Join(file, "x"), 0o700)) // which is no file to remove
	disarm()
	require.Equal(t, exitFailed, next.wait())
	assert.Contains(t, next.said(), "took over")
	assert.NotContains(t, next.said(), "serving")
	require.NoError(t, os.RemoveAll(file))
	require.NoError(t, os.Rename(file+".kept", file))
	last := start(t, etcd, "", "--state-dir", dir)
	assert.Equal(t, "HELD", last.locks(1)[0]["state"])
}

// A second signal ends the waiting. A successor that is ended while it tries to take over leaves
// everything to the next one, which is alive meanwhile, and ready when it has.
func TestASuccessorIsAliveAndNotReadyWhileItTakesOver(t *testing.T) {
	t.Parallel()
	etcd := ofOwn(t)
	socket := launch.Socket(t)
	dir := filepath.Join(t.TempDir(), "state")
	args := []string{"--endpoints", etcd.Addr(), "--socket", socket, "--state-dir", dir, "--health", "127.0.0.1:0", "--max-ttl", "150s"}
	p := begin(t, args...)
	p.socket, p.http = socket, unixClient(socket)
	p.waitFor(socket)
	held := p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000})
	disarm := noSpace(t, etcd)
	p.signal(syscall.SIGTERM)
	p.awaitSaid("etcd is out of space (NOSPACE)")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 0, p.wait())
	assert.Contains(t, p.said(), "etcd has not said that it has space again")
	file := filepath.Join(dir, "state.json")
	unclaimed, err := os.ReadFile(file)
	require.NoError(t, err)

	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		require.NoError(t, os.WriteFile(file, unclaimed, 0o600))
		before, err := os.Stat(file)
		require.NoError(t, err)
		next := begin(t, args...)
		status, text := next.health("/readyz")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, text, "takes over")
		eventually(t, func() bool { // it has claimed it, in another file of that name, and waits for space
			now, err := os.Stat(file)
			return err == nil && !os.SameFile(before, now)
		})
		next.signal(sig)
		require.Equal(t, 0, next.wait())
		assert.Contains(t, next.said(), "left to the next pawld")
		left := stateIn(t, dir)
		assert.Equal(t, left, left.Claimed(), "what is left can be taken over also if a request of this one's is applied later")
	}

	next := begin(t, args...)
	next.http = unixClient(socket)
	status, _ := next.health("/livez")
	assert.Equal(t, http.StatusOK, status)
	status, text := next.health("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "takes over")
	assert.Equal(t, "0", next.metrics()["pawld_ready"])
	disarm()
	next.awaitReady()
	all := next.locks(1)
	require.Len(t, all, 1)
	assert.Equal(t, "HELD", all[0]["state"])
	assert.Equal(t, held["token"], all[0]["token"])
}
