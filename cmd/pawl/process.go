package main

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a running command and all that it started.
type process struct {
	pid     int
	tty     *terminal       // handed over to it; nil: not
	exited  chan struct{}   // closed when the command itself has ended
	status  unix.WaitStatus // its end; read after exited
	changed chan os.Signal  // a child of ours has changed: the command, or an orphan it left to us
}

// start starts a command with our stdin, stdout and stderr.
func start(path string, argv, env []string) (*process, error) {
	p := &process{tty: foreground(), exited: make(chan struct{}), changed: make(chan os.Signal, 1)}
	signal.Notify(p.changed, unix.SIGCHLD)
	adoptOrphans()
	started := make(chan error)
	go func() { // ends when the command has ended, which under waits for
		// The kernel's "die with the parent" means this thread: it must last as long
		// as the command does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		proc, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: files(), Sys: attributes(p.tty)})
		if err == nil {
			p.pid = proc.Pid
			defer proc.Release()
		}
		started <- err
		if err == nil {
			p.wait()
		}
	}()
	if err := <-started; err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// wait waits for the command's end. A command that the terminal stops is made to
// go on: nobody could continue it, and it would keep the lock.
func (p *process) wait() {
	defer close(p.exited)
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(p.pid, &ws, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return // nobody else waits for it: cannot be
		case ws.Stopped():
			if ws.StopSignal() == unix.SIGTSTP {
				p.signal(unix.SIGCONT)
			}
		default:
			p.status = ws
			return
		}
	}
}

// signal sends sig to the command's process group.
func (p *process) signal(sig syscall.Signal) { _ = unix.Kill(-p.pid, sig) }

// kill ends the command, and whatever else it started, for good.
func (p *process) kill() {
	below, seen := descendants()
	if !seen || !p.ended() { // later, the group's number could be another's
		p.signal(unix.SIGKILL)
	}
	for _, pid := range below {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	p.tidy()
}

// alive reports whether anything that the command started is left, once it has
// ended itself.
func (p *process) alive() bool {
	p.tidy()
	below, seen := descendants()
	return len(below) > 0 || !seen && unix.Kill(-p.pid, 0) == nil
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// tidy buries orphans that were left to us.
func (p *process) tidy() {
	for _, pid := range orphans() {
		if pid != p.pid {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// close gives back what start took.
func (p *process) close() {
	signal.Stop(p.changed)
	p.tty.takeBack()
}
