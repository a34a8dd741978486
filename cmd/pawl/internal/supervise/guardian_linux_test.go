package supervise

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Awake, it would remove its key before its command is dead.
func TestAGuardianDoesNotWakeAStoppedHolder(t *testing.T) {
	run := func() *exec.Cmd {
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // the kernel may wake what is stopped in an orphaned group
		require.NoError(t, c.Start())
		return c
	}
	holder, command := run(), run()
	t.Cleanup(func() { _ = holder.Process.Kill() })
	require.NoError(t, holder.Process.Signal(unix.SIGSTOP))
	var status unix.WaitStatus
	_, err := unix.Wait4(holder.Process.Pid, &status, unix.WUNTRACED, nil)
	require.NoError(t, err)
	g := &guardian{holder: holder.Process.Pid, shared: new(sharedMemory)}
	g.shared.running.Store(1)
	g.begin(1)
	g.watch.cause = errNotExtended
	g.watch.begin(time.Now(), g)
	assert.EqualError(t, command.Wait(), "signal: terminated")
	changed, err := unix.Wait4(holder.Process.Pid, &status, unix.WCONTINUED|unix.WNOHANG, nil)
	require.NoError(t, err)
	assert.Zero(t, changed, "the holder was woken")
	g.kill()
	assert.EqualError(t, holder.Wait(), "signal: killed")
}

// It waits for its KILL, and would keep the lock for ever.
func TestAHolderIsKilledEvenIfItIsNotListed(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	out, err := exec.Command("sh", "-c", "sleep 1000 > /dev/null 2>&1 & echo $!").Output()
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	_, listed := find(pid, below(os.Getpid(), processes()))
	require.False(t, listed)
	g := &guardian{holder: pid, shared: new(sharedMemory)}
	g.shared.running.Store(1)
	g.begin(1)
	g.kill()
	for p, ok := find(pid, processes()); ok && !p.dead; p, ok = find(pid, processes()) {
		time.Sleep(time.Millisecond)
	}
}
