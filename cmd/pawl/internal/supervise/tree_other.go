//go:build !linux

package supervise

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// DieWithParent does nothing, because only Linux has such a thing.
func DieWithParent(*unix.SysProcAttr) {}

// adoptOrphans does nothing, because only Linux has such a thing.
func adoptOrphans() bool { return false }

// anyChild is wait4's argument, only the command, because ps is a child too.
func anyChild(pid int) int { return pid }

// anyLeft reports whether a child of this process, or anything that one started, still runs, as
// far as ps shows it.
func anyLeft() bool { return len(below(os.Getpid(), processes())) > 0 }

// processes are all that ps shows.
func processes() (all []relative) {
	ps := exec.Command("ps", "-axo", "pid=,ppid=,pgid=,stat=")
	out, err := ps.Output()
	if err != nil {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var p relative
		var state string
		if _, err := fmt.Sscan(lines.Text(), &p.pid, &p.parent, &p.group, &state); err != nil {
			continue
		}
		if p.pid == ps.Process.Pid {
			continue
		}
		p.session, _ = unix.Getsid(p.pid)
		p.dead, p.stopped = strings.HasPrefix(state, "Z"), strings.HasPrefix(state, "T")
		all = append(all, p)
	}
	return all
}

// process is the process with that number.
func process(pid int) (relative, bool) { return find(pid, processes()) }

// catches reports whether a process has a handler for sig. It is not known here.
func catches(int, unix.Signal) bool { return true }
