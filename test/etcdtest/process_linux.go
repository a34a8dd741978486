package etcdtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tie makes the process end with this one, even while it is paused, and puts it in a separate process
// group. If the group of the tests is orphaned, as in a container, the kernel wakes what is stopped in
// it (SIGHUP, SIGCONT) when any member ends whose parent is in another group, as a command of pawl's is.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// pause returns once every thread of the process has stopped, because the signal alone lets them
// run on for a moment.
func pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); !stopped(p.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not stop", p.Pid)
		}
	}
	return nil
}

// stopped reports whether all threads of the process are stopped.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false
		}
		// The state follows the name, which is in parentheses and may hold any.
		_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if len(rest) == 0 || rest[0] != 'T' {
			return false
		}
	}
	return true
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// locked reports whether an open file holds etcd's lock on one. It does not try to take the lock,
// because that would let others inherit it.
func locked(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	found := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &found) == nil && found.Type != unix.F_UNLCK
}
