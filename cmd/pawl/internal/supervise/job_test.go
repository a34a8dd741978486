package supervise

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// member starts a shell's script in group, or in a group of its own.
func member(t *testing.T, group int, script string) (pid int, stdout io.Reader) {
	c := exec.Command("sh", "-c", script)
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pgid: group}
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP) // a child that inherits an ignored HUP, as under nohup, would survive it
	defer signal.Stop(hup)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = unix.Kill(c.Process.Pid, unix.SIGKILL); _ = c.Wait() })
	return c.Process.Pid, stdout
}

// stops returns when the system shows that a process has stopped. Nobody has waited for that yet.
func stops(t *testing.T, pid int) {
	for p, ok := process(pid); !p.stopped; p, ok = process(pid) {
		require.True(t, ok && !p.dead)
		time.Sleep(time.Millisecond)
	}
}

const stopsItself = "kill -STOP $$; echo goes on"

// Ctrl-Z stops the guardian and the command one after the other, and a command that handles it goes on for a
// while. HUP would end it.
func TestALoneJobIsContinuedIfOnlyItsGuardianHasStopped(t *testing.T) {
	guardian, out := member(t, 0, stopsItself)
	command, _ := member(t, guardian, "exec sleep 1000")
	j := &job{pid: command, alone: true, Command: &Command{Link: &Link{group: guardian, parent: guardian}}}
	stops(t, guardian)
	j.wakeOrphan()
	p, _ := process(guardian)
	require.True(t, p.stopped, "the command may be about to stop, too")
	j.wakeOrphan()
	said, err := io.ReadAll(out)
	require.NoError(t, err)
	assert.Equal(t, "goes on\n", string(said))
}

// Who sends it STOP means it, also where the list of processes shows that before wait(2) does.
func TestALoneJobThatIsStoppedAsAWholeStaysSo(t *testing.T) {
	guardian, _ := member(t, 0, stopsItself)
	command, _ := member(t, guardian, stopsItself)
	j := &job{pid: command, alone: true, Command: &Command{Link: &Link{group: guardian, parent: guardian}}}
	stops(t, guardian)
	stops(t, command)
	j.wakeOrphan()
	j.wakeOrphan()
	p, _ := process(guardian)
	assert.True(t, p.stopped)
	assert.Equal(t, unix.SIGSTOP, j.stopped)
}
