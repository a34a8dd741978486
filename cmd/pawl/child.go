package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// holding is what a command runs under: a lock or a term.
type holding interface {
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
}

// command is a program that runs only while something is held.
type command struct {
	argv  []string
	path  string
	env   []string
	grace time.Duration
	sigs  *signals
	heard func(os.Signal) // is told what is forwarded; may be nil
}

// find looks for the program of argv before anything else is done.
func find(argv []string) (path string, err error) {
	if len(argv) == 0 {
		return "", nil
	}
	path, err = exec.LookPath(argv[0])
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", exit(exitNotFound, err)
	}
	return "", exit(exitNoExec, err)
}

// leastReserve is the least time for a KILL to take effect.
const leastReserve = 100 * time.Millisecond

// reserve is how long before the deadline KILL is sent.
func (c command) reserve() time.Duration { return max(leastReserve, c.grace/4) }

// notice is how long before the deadline TERM is sent, when nothing but a lack of
// renewals is wrong.
func (c command) notice() time.Duration { return max(c.grace, c.reserve()) }

// glance is how often the clock is compared with the deadline, so that a suspend,
// which stops timers, is noticed soon after.
const glance = 500 * time.Millisecond

// under runs the command while h is held. It returns when the command, and after
// a loss all that it started, is dead. The error's exit code is the command's.
func (c command) under(h holding) error {
	if err := h.Err(); err != nil {
		return exit(exitLost, err)
	}
	p, err := start(c.path, c.argv, c.env)
	if err != nil {
		return exit(exitNoExec, fmt.Errorf("%s: %w", c.argv[0], err))
	}
	defer p.close()
	w := watchman{command: c, h: h, deadline: h.Deadline()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	exited, done := p.exited, h.Done()
	for exited != nil || w.lost != nil && p.alive() {
		select {
		case <-exited:
			exited = nil
		case sig := <-c.sigs.ch:
			if c.heard != nil {
				c.heard(sig)
			}
			p.signal(number(sig))
		case <-done:
			done = nil
		case <-p.changed:
			p.tidy()
		case <-timer.C:
		}
		timer.Reset(w.look(time.Now(), p))
	}
	if w.lost != nil {
		return exit(exitLost, fmt.Errorf("%s was ended: %w", c.argv[0], w.lost))
	}
	return endOf(p.status)
}

// target is a process group that is to end.
type target interface {
	signal(sig unix.Signal)
	kill()
}

// watchman decides when the command has to end, and sees to it.
type watchman struct {
	command
	h        holding
	deadline time.Time // the last one known
	lost     error     // why it has to end; nil: it has not
	killAt   time.Time // once lost
	kills    int       // how often it was killed
}

// errRunningOut is why a command is ended before its lock is.
var errRunningOut = errors.New("the lock is running out: renewals are not confirmed")

// look acts on what is so at now, and returns how long until the next look.
func (w *watchman) look(now time.Time, p target) time.Duration {
	if w.lost == nil {
		left := w.left(now)
		if w.lost == nil {
			return min(left, glance)
		}
		// A stopped one hears TERM only when it goes on.
		p.signal(unix.SIGTERM)
		p.signal(unix.SIGCONT)
	}
	if wait := w.killAt.Sub(now); wait > 0 {
		return wait
	}
	p.kill()
	w.kills++
	// Once more, until nothing is left; what runs as another user cannot be killed.
	return min(10*time.Millisecond<<min(w.kills, 7), time.Second)
}

// left is how long the command may run on without another look. It sets lost.
func (w *watchman) left(now time.Time) time.Duration {
	err, deadline := w.h.Err(), w.h.Deadline()
	if err == nil && !deadline.IsZero() {
		w.deadline = deadline
		if left := deadline.Sub(now) - w.notice(); left > 0 {
			return left
		}
		err = errRunningOut
	}
	if err == nil {
		err = w.h.Err()
	}
	w.lost = err
	w.killAt = now.Add(w.grace)
	if last := w.deadline.Add(-w.reserve()); last.Before(w.killAt) {
		w.killAt = last
	}
	return 0
}

// endOf is a command's end as pawl's.
func endOf(ws unix.WaitStatus) error {
	switch {
	case ws.Signaled():
		return exit(exitSignal+int(ws.Signal()), nil)
	case ws.ExitStatus() != 0:
		return exit(ws.ExitStatus(), nil)
	}
	return nil
}

// attributes are what every started command has: a process group of its own,
// which is the terminal's foreground where ours was.
func attributes(tty *terminal) *unix.SysProcAttr {
	attr := &unix.SysProcAttr{Setpgid: true}
	if tty != nil {
		attr.Foreground, attr.Ctty = true, tty.fd
	}
	dieWithParent(attr)
	return attr
}

// files are the command's: our own three.
func files() []*os.File { return []*os.File{os.Stdin, os.Stdout, os.Stderr} }
