//go:build linux

package reclaim_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// begin starts a publisher, and waits until it has published.
func begin(t *testing.T, attr syscall.SysProcAttr, path string, args ...string) *process {
	t.Helper()
	p := start(t, attr, "publisher", append([]string{path}, args...)...)
	p.said("published")
	alive(t, path)
	return p
}

// rule: RC2
func TestWhatDoesNotEndAProcessProvesNoDeath(t *testing.T) {
	for what, do := range map[string]func(t *testing.T, p *process, path string){
		"a stray close": func(t *testing.T, p *process, path string) { p.does("close") },
		"a forked child that closes its descriptors and ends": func(t *testing.T, p *process, path string) {
			child(t, p.does("fork close end"))
		},
		"a forked child that ends with its descriptors": func(t *testing.T, p *process, path string) { child(t, p.does("fork keep end")) },
		"a stop":                              func(t *testing.T, p *process, path string) { stop(t, p) },
		"an opening and a closing by another": func(t *testing.T, p *process, path string) { touch(t, path) },
		"a look at itself":                    func(t *testing.T, p *process, path string) { assert.Equal(t, "false <nil>", p.does("check")) },
	} {
		t.Run(what, func(t *testing.T) {
			path := newPath(t)
			p := begin(t, syscall.SysProcAttr{}, path)
			do(t, p, path)
			alive(t, path)
			p.kill()
			dead(t, path)
		})
	}
}

// child waits for the end of a child of the publisher's that ends.
func child(t *testing.T, pid string) {
	t.Helper()
	for { // a zombie, because its parent does not wait for it
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		require.NoError(t, err)
		if _, after, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(after, "Z") {
			return
		}
	}
}

func stop(t *testing.T, p *process) {
	t.Helper()
	p.signal(unix.SIGSTOP)
	var info unix.Siginfo
	require.NoError(t, unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil))
}

func touch(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(path, name), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	require.NoError(t, f.Close())
}

// Its memory has a copy of all that the dead process believed.
// rule: RC2
func TestAForkedChildKeepsItsParentAlive(t *testing.T) {
	for _, descriptors := range []string{"close", "keep"} {
		path := newPath(t)
		p := begin(t, syscall.SysProcAttr{}, path)
		pid := p.does("fork " + descriptors + " stay")
		p.kill()
		alive(t, path)
		var number int
		_, err := fmt.Sscan(pid, &number)
		require.NoError(t, err)
		require.NoError(t, unix.Kill(number, unix.SIGKILL))
		dead(t, path)
	}
}

// rule: RC2
func TestAProcessThatBeginsAnotherProgramBelievesNothing(t *testing.T) {
	path := newPath(t)
	p := begin(t, syscall.SysProcAttr{}, path)
	p.does("exec")
	dead(t, path)
	require.NoError(t, unix.Kill(p.cmd.Process.Pid, 0), "it lives")
}

// As flock(1) and a command under a lock do.
// rule: RC2
func TestWhoInheritsTheDescriptorBelievesAsWell(t *testing.T) {
	path := newPath(t)
	p := begin(t, syscall.SysProcAttr{}, path, "inherit")
	p.does("exec")
	alive(t, path)
	p.kill()
	dead(t, path)
}

// rule: RC2
func TestAZombieIsDead(t *testing.T) {
	path := newPath(t)
	p := begin(t, syscall.SysProcAttr{}, path)
	p.kill()
	dead(t, path)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(t, err)
	assert.Contains(t, string(stat), ") Z ")
}

// rule: RC5
func TestAProcessThatRemovesItsFileLeavesNothing(t *testing.T) {
	path := newPath(t)
	p := begin(t, syscall.SysProcAttr{}, path)
	p.does("remove")
	names, err := os.ReadDir(path)
	require.NoError(t, err)
	assert.Empty(t, names)
}
