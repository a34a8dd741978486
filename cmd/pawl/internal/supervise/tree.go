package supervise

import "golang.org/x/sys/unix"

// relative is one process as the system shows it.
type relative struct {
	pid, parent, group, session int
	dead                        bool // and not yet waited for
	stopped                     bool
}

// below are the descendants of a process that still run, parents before children.
func below(root int, all []relative) (found []relative) {
	children := make(map[int][]relative)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	next := []int{root}
	seen := map[int]bool{root: true}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			if seen[p.pid] {
				continue // the system's answer is no snapshot, so it can contain a cycle
			}
			seen[p.pid] = true
			next = append(next, p.pid)
			if !p.dead {
				found = append(found, p)
			}
		}
	}
	return found
}

// find is the process with that number.
func find(pid int, all []relative) (relative, bool) {
	for _, p := range all {
		if p.pid == pid {
			return p, true
		}
	}
	return relative{}, false
}

// orphaned reports whether nobody could continue a shell's job, the process group group, because no
// member, except ours, has a parent in another group of the session. The kernel's rule counts the
// holder as such a parent.
func orphaned(group int, ours func(pid int) bool, all []relative) bool {
	for _, p := range all {
		if p.group != group || p.dead || ours(p.pid) {
			continue
		}
		if q, ok := find(p.parent, all); ok && !q.dead && q.group != group && q.session == p.session {
			return false
		}
	}
	return true
}

// signalAll sends sig to each, and reports which of them it may not signal.
func signalAll(each []relative, sig unix.Signal) (refused []int) {
	for _, p := range each {
		if unix.Kill(p.pid, sig) == unix.EPERM {
			refused = append(refused, p.pid)
		}
	}
	return refused
}
