package supervise

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// DieWithParent makes the kernel kill a child when the thread that starts it ends.
func DieWithParent(attr *unix.SysProcAttr) { attr.Pdeathsig = unix.SIGKILL }

// adoptOrphans makes this process the parent of the orphans of its descendants, so that it can
// find them. It reports whether the system does that.
func adoptOrphans() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// anyChild is wait4's argument, which includes orphans, because they are children of this process
// too.
func anyChild(int) int { return -1 }

// anyLeft reports whether a child of this process, or anything that one started, still runs. An
// orphan among them becomes a child, so if there is no child, nothing is left. A list of all
// processes could not show that, because it may miss a process that forks and ends meanwhile.
func anyLeft() bool {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err != unix.ECHILD
		}
	}
}

// processes returns all visible processes, except those that end meanwhile.
func processes() (all []relative) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := process(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// process is the process with that number.
func process(pid int) (relative, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return relative{}, false
	}
	return parseStat(pid, stat)
}

// parseStat reads "pid (name) state ppid pgrp session …"; name may hold anything.
func parseStat(pid int, stat []byte) (relative, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return relative{}, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 4 {
		return relative{}, false
	}
	p := relative{pid: pid}
	for i, to := range []*int{&p.parent, &p.group, &p.session} {
		n, err := strconv.Atoi(string(fields[1+i]))
		if err != nil {
			return relative{}, false
		}
		*to = n
	}
	state := fields[0][0]
	p.dead, p.stopped = state == 'Z' || state == 'X', state == 'T' || state == 't'
	return p, true
}

// catches reports whether a process has a handler for sig, as far as the system shows it.
func catches(pid int, sig unix.Signal) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(status, []byte("\nSigCgt:"))
	mask, _, _ := bytes.Cut(after, []byte("\n"))
	caught, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
	return err != nil || caught&(1<<(sig-1)) != 0
}
