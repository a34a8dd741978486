package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// reclaimDir is a directory on a file system on which deaths can be proved.
func reclaimDir(t *testing.T) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/dev/shm"} {
		path, err := os.MkdirTemp(base, "reclaim")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(path) })
		if _, err := reclaim.Open(path); err == nil {
			return path
		}
	}
	t.Skip("neither the temporary directory nor /dev/shm is on tmpfs, ext4, xfs or btrfs")
	return ""
}

// reaper is a pawl reap that watches dir.
func reaper(t *testing.T, endpoint, dir string, args ...string) (p *program, line func() map[string]any) {
	t.Helper()
	p = begin(t, endpoint, append([]string{"reap", "--json", dir}, args...)...)
	out := p.lines()
	line = func() (of map[string]any) {
		require.NoError(t, json.Unmarshal([]byte(next(t, out)), &of))
		return of
	}
	assert.Equal(t, "watching", line()["event"])
	return p, line
}

// killAll kills pawl, its guardian and all that they have started in one instant, as a container's end does.
func killAll(t *testing.T, p *program, more ...int) {
	t.Helper()
	holder := regexp.MustCompile(`(?m)^PPid:\s+(\d+)$`)
	all := []int{p.cmd.Process.Pid}
	for _, pid := range more {
		all = append(all, pid)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		require.NoError(t, err)
		var parent int
		_, err = fmt.Sscan(string(holder.FindSubmatch(status)[1]), &parent)
		require.NoError(t, err)
		all = append(all, parent)
	}
	for _, pid := range all { // none of them can act between two signals
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		eventually(t, func() bool { return stopped(t, pid) }, "it does not stop")
	}
	// The guardian dies last. If it died before the holder, the kernel would continue the holder, as one of a process group that is orphaned.
	for _, pid := range slices.Backward(all) {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}
}

// stopped reports whether each thread of a process has stopped. The signal stops one, and that the others.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return false
		}
	}
	return true
}

// rule: RC2
func TestReapFreesWhatACommandHeldOnceAllOfItIsDead(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), reclaimDir(t)
	for _, args := range [][]string{{"lock", "--owner", "ann", "--ttl", "10m", "--reclaim-dir", dir, "job"}, {"elect", "--owner", "ann", "--ttl", "10m", "--reclaim-dir", dir, "chief", "v"}} {
		r, line := reaper(t, s.Addr(), dir)
		holder := begin(t, s.Addr(), append(args, "--", "sh", "-c", "echo $$; exec sleep 1000")...)
		command := pid(t, holder.lines())
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1)
		killAll(t, holder, command)
		reclaimed := line()
		assert.Equal(t, "reclaimed", reclaimed["event"], "%v", reclaimed)
		assert.Equal(t, "ann", reclaimed["owner"])
		assert.Equal(t, dir, reclaimed["dir"])
		assert.True(t, strings.HasPrefix(files[0].Name(), fmt.Sprintf("%016s", reclaimed["lease"])))
		requireNothingLeft(t, s)
		assert.Empty(t, names(t, dir))
		require.NoError(t, r.cmd.Process.Signal(unix.SIGTERM))
		assert.Equal(t, 0, r.code(t))
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

// The command may write, so it believes, whatever becomes of pawl. Here the guardian cannot act either.
// rule: RC2
func TestACommandThatLivesKeepsTheLockOfPawlsThatAreDead(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), reclaimDir(t)
	// setsid and a second fork: it is nobody's child, and not in pawl's group.
	holder := begin(t, s.Addr(), "lock", "--ttl", "10m", "--reclaim-dir", dir, "job", "--", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!; echo $$; wait")
	out := holder.lines()
	far, command := pid(t, out), pid(t, out)
	t.Cleanup(func() { _ = unix.Kill(far, unix.SIGKILL) })
	d, err := reclaim.Open(dir)
	require.NoError(t, err)
	file := names(t, dir)[0]
	killAll(t, holder, command)
	assert.Equal(t, -1, holder.code(t))
	_, err = d.Claim(file)
	require.ErrorIs(t, err, reclaim.ErrAlive)
	r, line := reaper(t, s.Addr(), dir)
	_, err = d.Claim(file)
	require.ErrorIs(t, err, reclaim.ErrAlive)
	require.NoError(t, unix.Kill(far, unix.SIGKILL))
	assert.Equal(t, "reclaimed", line()["event"])
	require.NoError(t, r.cmd.Process.Signal(unix.SIGINT))
	assert.Equal(t, 0, r.code(t))
	requireNothingLeft(t, s)
}

// A process of the command works on after its holder was killed, until the guardian ends it, and may have
// closed what it had inherited.
// rule: RC2
func TestAGuardianKeepsTheLockUntilItHasEndedAllThatAKilledHolderStarted(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), reclaimDir(t)
	r, _ := reaper(t, s.Addr(), dir)
	holder := begin(t, s.Addr(), "lock", "--ttl", "10m", "--grace", "1", "--reclaim-dir", dir, "job", "--", "sh", "-c",
		`closer sh -c "trap '' TERM; echo \$\$; while :; do sleep 1; done" & echo $$; wait`)
	out := holder.lines()
	first, second := pid(t, out), pid(t, out)
	command, far := first, second
	if parentOf(t, first) == second {
		command, far = second, first
	}
	require.NoError(t, unix.Kill(parentOf(t, command), unix.SIGKILL))
	eventually(t, func() bool { return countKeys(t, s) == 0 }, "the lease is not revoked")
	assert.False(t, runs(far), "another could hold while it works")
	assert.Equal(t, cli.ExitLost, holder.code(t))
	eventually(t, func() bool { return len(names(t, dir)) == 0 }, "pawl reap leaves the file")
	require.NoError(t, r.cmd.Process.Signal(unix.SIGTERM))
	assert.Empty(t, r.all(), "the guardian has revoked it")
	assert.Equal(t, 0, r.code(t))
	requireNothingLeft(t, s)
}

func TestACommandThatEndsLeavesNoFile(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), reclaimDir(t)
	for _, args := range [][]string{{"lock", "job"}, {"elect", "chief", "v"}, {"elect", "-n", "chief", "v"}} {
		p := begin(t, s.Addr(), append(args, "--reclaim-dir", dir, "--", "true")...)
		assert.Equal(t, 0, p.code(t), args)
		assert.Empty(t, names(t, dir), args)
	}
	requireNothingLeft(t, s)
}

func TestReclaimDirIsRefusedWhereAnotherProcessBelieves(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), reclaimDir(t)
	wide := reclaimDir(t)
	require.NoError(t, os.Chmod(wide, 0o755))
	for want, args := range map[string][]string{
		"--reclaim-dir wants a COMMAND":                   {"lock", "--reclaim-dir", dir, "job"},
		"--reclaim-dir wants a COMMAND: without":          {"lock", "--reclaim-dir", dir, "--pid", fmt.Sprint(os.Getpid()), "job"},
		"--reclaim-dir wants a COMMAND: without one":      {"elect", "--reclaim-dir", dir, "chief", "v"},
		"--reclaim-dir and --at-least exclude each other": {"lock", "--reclaim-dir", dir, "--at-least", "5", "job", "--", "true"},
		"--reclaim-dir and --embed exclude each other":    {"lock", "--reclaim-dir", dir, "--embed", "job", "--", "true"},
		"its mode is 0755":                                {"lock", "--reclaim-dir", wide, "job", "--", "true"},
		"want a DIR":                                      {"reap"},
		"DIR: " + wide:                                    {"reap", dir, wide},
		"no such file":                                    {"reap", filepath.Join(dir, "a", "b")},
	} {
		p := begin(t, s.Addr(), args...)
		assert.Equal(t, cli.ExitUsage, p.code(t), args)
		assert.Contains(t, p.stderr.String(), want)
	}
}

// As a service's RuntimeDirectory, which systemd removes at its end.
func TestReapWaitsForADirectoryThatWasRemoved(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), filepath.Join(reclaimDir(t), "run")
	r, line := reaper(t, s.Addr(), dir)
	require.NoError(t, os.Rename(dir, dir+".old"))
	assert.Equal(t, "watching", line()["event"])
	holder := begin(t, s.Addr(), "lock", "--ttl", "10m", "--reclaim-dir", dir, "job", "--", "sh", "-c", "echo $$; exec sleep 1000")
	killAll(t, holder, pid(t, holder.lines()))
	assert.Equal(t, "reclaimed", line()["event"])
	require.NoError(t, r.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 0, r.code(t))
	assert.Contains(t, r.stderr.String(), "the directory is gone: waiting until it is there again")
}

func TestReapLeavesWhatProvesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	s, dir := etcdtest.Start(t), reclaimDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("{}"), 0o600))
	r, _ := reaper(t, s.Addr(), dir)
	testscale.Await(t, func() bool { return strings.Contains(r.stderr.String(), "notes is left: its content") })
	doctor := begin(t, s.Addr(), "doctor", "--reclaim-dir", dir)
	said := doctor.all()
	assert.Contains(t, said, "look  reclaim    "+dir+"/notes: its content")
	assert.Contains(t, said, "ok    reclaim    "+dir+": 0 files of processes that live")
	require.NoError(t, os.RemoveAll(dir))
	assert.Contains(t, begin(t, s.Addr(), "doctor", "--reclaim-dir", dir).all(), "wrong reclaim    "+dir+": stat "+dir+": no such file")
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, fs.ErrNotExist, "doctor makes none")
}
