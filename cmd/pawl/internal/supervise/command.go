package supervise

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Command is a program that runs only while something is held.
type Command struct {
	Argv  []string
	Path  string // of the program
	Env   []string
	Grace time.Duration // from TERM to KILL
	Link  *Link
	Cue   <-chan struct{} // once it is closed, the command is sent Sign, as soon as it catches that; may be nil
	Sign  syscall.Signal
	Heard func(Signal) // called with each signal that arrives meanwhile; may be nil
	Stops func()       // called when the command was stopped; may be nil
	Warn  func(string) // called with warnings for the user; may be nil
}

// A StartError is why a command could not be started.
type StartError struct {
	Name string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Name, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// An EndedError is why a command was ended.
type EndedError struct {
	Name  string
	Cause error
}

func (e *EndedError) Error() string { return fmt.Sprintf("%s was ended: %v", e.Name, e.Cause) }
func (e *EndedError) Unwrap() error { return e.Cause }

// Run runs the command while h is held, and keeps h until it returns. A process that was stopped, or is
// late, finds that h has ended, and nobody else may get it while the command still lives. It returns when the command has ended, and, unless the
// command exited by itself, everything that it started has ended too. The status is the command's.
// The error is a *StartError, an *EndedError, an *Interrupted, or why h had ended before the start.
func (c *Command) Run(h Holding) (unix.WaitStatus, error) {
	// Linux kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer h.Keep()()
	if err := c.Link.ready(h); err != nil {
		return 0, err
	}
	deadline := h.Deadline()
	if deadline.IsZero() {
		return 0, h.Err()
	}
	shared := c.Link.shared
	shared.grace.Store(int64(c.Grace))
	shared.remains = h.Remains()
	shared.extend(deadline)
	c.Link.runs++
	shared.running.Store(c.Link.runs)
	defer c.Link.finish()
	j, err := c.start()
	if err != nil {
		return 0, err
	}
	defer j.close()
	return j.run(h)
}

// start starts the command in the job's process group, with this process's stdin,
// stdout and stderr.
func (c *Command) start() (*job, error) {
	j := newJob(c)
	attr := &unix.SysProcAttr{Setpgid: true, Pgid: c.Link.group}
	DieWithParent(attr)
	var proc *os.Process
	var err error
	c.Link.withoutTTOU(func() {
		proc, err = os.StartProcess(c.Path, c.Argv, &os.ProcAttr{
			Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr,
		})
	})
	if err != nil {
		j.close()
		return nil, &StartError{c.Argv[0], err}
	}
	j.pid = proc.Pid
	return j, proc.Release()
}
