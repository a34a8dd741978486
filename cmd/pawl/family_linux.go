package main

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// dieWithParent has the command killed when we are.
func dieWithParent(attr *unix.SysProcAttr) { attr.Pdeathsig = unix.SIGKILL }

// adoptOrphans makes us the parent of what the command's children leave behind,
// so that it can be found.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// descendants are the processes below us that still run. seen is false where
// /proc shows no processes.
func descendants() (pids []int, seen bool) {
	all := family()
	below := map[int]bool{os.Getpid(): true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] {
				below[p.pid], grown = true, true
				if !p.dead {
					pids = append(pids, p.pid)
				}
			}
		}
	}
	return pids, len(all) > 0
}

// orphans are the dead among our own children.
func orphans() (pids []int) {
	self := os.Getpid()
	for _, p := range family() {
		if p.parent == self && p.dead {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

type relative struct {
	pid, parent int
	dead        bool // and not yet waited for
}

// family is every process that is to be seen. One that is gone while it looks is
// left out.
func family() (all []relative) {
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
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(pid, stat); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads "pid (name) state ppid …"; name may hold anything.
func parseStat(pid int, stat []byte) (relative, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return relative{}, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return relative{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return relative{pid, parent, fields[0][0] == 'Z' || fields[0][0] == 'X'}, err == nil
}
