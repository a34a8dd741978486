package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// A job is a running command and everything that it started, as the holder sees it.
type job struct {
	*Command
	pid      int
	children chan os.Signal // a child of this process has changed
	watch    *watchman
	ended    bool            // the command itself
	status   unix.WaitStatus // how it ended
	stopped  unix.Signal     // what stopped the command; 0 if it runs
	alone    bool            // without a shell, nobody could ever have continued it
	wanted   wanted
	ahead    bool // the guardian had stopped, and the command had not, when wakeOrphan looked last
	warned   bool // about processes that cannot be ended
}

// newJob is a job whose command is about to be started.
func newJob(c *Command) *job {
	j := &job{Command: c, children: make(chan os.Signal, 1)}
	signal.Notify(j.children, unix.SIGCHLD)
	adoptOrphans()
	j.alone = j.isOrphan(processes())
	return j
}

func (j *job) close() { signal.Stop(j.children) }

// errLeftBehind is why the processes that a killed command left behind are ended.
var errLeftBehind = errors.New("a signal ended the command")

// run returns when the job has ended.
func (j *job) run(h Holding) (unix.WaitStatus, error) {
	j.watch = newWatchman(h, j.Grace)
	timer := time.NewTimer(0)
	defer timer.Stop()
	done, cue := h.Done(), j.Cue
	for !j.ended || j.watch.cause != nil && j.alive() {
		select {
		case <-j.children:
			j.reap()
		case sig := <-j.Link.Signals.C:
			j.received(sig)
		case <-done:
			done = nil
		case <-cue:
			cue = nil
			j.wanted.begin()
		case <-timer.C:
			j.wakeOrphan()
		}
		j.sendSign()
		timer.Reset(j.watch.check(j))
		j.Link.shared.extend(h.Deadline())
	}
	if cause := j.watch.cause; cause != nil && cause != errLeftBehind {
		return j.status, &EndedError{j.Argv[0], cause}
	}
	return j.status, nil
}

// received acts on a signal that came to the guardian.
func (j *job) received(sig Signal) {
	if j.Heard != nil {
		j.Heard(sig)
	}
	switch {
	case sig.Number == unix.SIGKILL:
		j.watch.end(ErrGuardianGone)
	case sig.Job: // the command has it
	default:
		j.forward(sig.Number)
		if sig.Deadly() {
			j.forward(unix.SIGCONT)
		}
	}
}

// reap finds out what happened to the command, and waits for orphans that have ended.
func (j *job) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(anyChild(j.pid), &ws, unix.WNOHANG|unix.WUNTRACED|waitContinued, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || pid <= 0:
			return
		case pid != j.pid:
		case ws.Stopped():
			j.stop(ws.StopSignal())
		case ws.Continued():
			j.goOn()
		default:
			j.ended, j.status = true, ws
			if ws.Signaled() {
				j.watch.end(errLeftBehind)
			}
		}
	}
}

// stop stops the guardian as the command was, so that the shell sees it.
func (j *job) stop(sig unix.Signal) {
	j.stopped = sig
	if j.alone && sig == unix.SIGTSTP { // the kernel would have dropped it
		_ = unix.Kill(-j.Link.group, unix.SIGCONT)
		j.forward(unix.SIGCONT)
		j.stopped = 0
		return
	}
	all := processes()
	if j.isOrphan(all) {
		return // wakeOrphan ends it
	}
	command, _ := find(j.pid, all)
	guardian, ok := find(j.Link.parent, all)
	if j.Stops != nil {
		j.Stops()
	}
	if ok && command.stopped && !guardian.stopped && j.watch.cause == nil {
		_ = unix.Kill(j.Link.parent, sig)
	}
}

// goOn continues the guardian after the command continued.
func (j *job) goOn() {
	j.stopped = 0
	if p, ok := process(j.Link.parent); ok && p.stopped {
		_ = unix.Kill(j.Link.parent, unix.SIGCONT)
	}
}

// wakeOrphan does for a stopped job that nobody can continue what the kernel does for an orphaned
// process group.
func (j *job) wakeOrphan() {
	j.reap() // a stop that the system has not reported yet
	wasAhead := j.ahead
	j.ahead = false
	if j.ended || j.stopped == unix.SIGSTOP {
		return
	}
	// The command itself does not show it while it waits for a child of vfork(2).
	guardian, _ := process(j.Link.parent)
	j.ahead = guardian.stopped && j.stopped == 0
	if j.stopped == 0 && !(j.ahead && wasAhead) || !j.isOrphan(processes()) { // the command's stop may be on its way
		return
	}
	if !j.alone || j.stopped != 0 { // Ctrl-Z may stop the guardian before the command, which may also handle it
		_ = unix.Kill(-j.Link.group, unix.SIGHUP)
	}
	_ = unix.Kill(-j.Link.group, unix.SIGCONT)
}

// isOrphan reports whether nobody could continue the job.
func (j *job) isOrphan(all []relative) bool {
	ours := map[int]bool{os.Getpid(): true}
	for _, p := range below(os.Getpid(), all) {
		ours[p.pid] = true
	}
	return orphaned(j.Link.group, func(pid int) bool { return ours[pid] }, all)
}

// forward sends sig to the command, and to those of its descendants that are in its
// process group.
func (j *job) forward(sig unix.Signal) {
	all := below(os.Getpid(), processes())
	group := j.Link.group
	if p, ok := find(j.pid, all); ok {
		group = p.group
	} else if !j.ended {
		_ = unix.Kill(j.pid, sig) // the list of processes does not show it
	}
	var members []relative
	for _, p := range all {
		if p.group == group || p.pid == j.pid {
			members = append(members, p)
		}
	}
	signalAll(members, sig)
}

// signal sends sig to the command and everything that it started.
func (j *job) signal(sig unix.Signal) {
	all := below(os.Getpid(), processes())
	refused := signalAll(all, sig)
	if len(all) == 0 && !j.ended {
		_ = unix.Kill(j.pid, sig) // the list of processes does not show it
	}
	if len(refused) > 0 && sig == unix.SIGKILL && !j.warned {
		j.warned = true
		j.warn(fmt.Sprintf("%v run as another user, and pawl may not end them", refused))
	}
}

// kill kills the command and everything that it started.
func (j *job) kill() {
	j.signal(unix.SIGKILL)
	j.reap()
}

// alive reports whether anything that the command started is left.
func (j *job) alive() bool {
	j.reap()
	return anyLeft()
}

func (j *job) warn(text string) {
	if j.Warn != nil {
		j.Warn(text)
	}
}
