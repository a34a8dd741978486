package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An End is how a holder ended.
type End struct {
	Code   int
	Signal syscall.Signal // if not 0, what ended it
	Err    error          // if not nil, the holder failed its command, which was ended

	// Remains are what a holder with an Err has left, if it is known that the holder and all that it
	// started are dead; otherwise zero. Until is the deadline of what it held.
	Remains Remains
	Until   time.Time
}

// errHolderGone is why the guardian ends everything.
var errHolderGone = errors.New("the pawl process that held the lock was killed")

// errNotExtended is why the guardian ends everything.
var errNotExtended = errors.New("the pawl process that held the lock did not extend it in time")

// guardian is the process that the user started.
type guardian struct {
	holder  int             // its process
	conn    syscall.RawConn // does not block
	shared  *sharedMemory
	run     int64 // the holder's run for which watch was made
	watch   *watchman
	senders senders
	proof   *os.File // of the last run; nil if there is none
	reaper  bool     // what the holder started becomes a child of this process when the holder dies
	ended   bool
	status  unix.WaitStatus // how the holder ended
}

// Guard starts this program again, with the same arguments, as the holder. It returns when the
// holder has ended, and, if it was killed, everything that it started has ended too.
func Guard() (End, error) {
	conn, theirs, err := newConn()
	if err != nil {
		return End{}, err
	}
	defer conn.Close()
	shared, file, err := newSharedMemory()
	if err != nil {
		return End{}, errors.Join(err, theirs.Close())
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return End{}, errors.Join(err, theirs.Close(), file.Close())
	}
	g := &guardian{conn: raw, shared: shared}
	g.begin(0)
	signals, children := make(chan os.Signal, 16), make(chan os.Signal, 1)
	g.senders.record() // first, so that each signal that is received has been counted
	notify(signals, append([]os.Signal{unix.SIGCONT}, forwarded...)...)
	signal.Notify(children, unix.SIGCHLD)
	drop(unix.SIGPIPE)
	g.reaper = adoptOrphans()
	err = g.start(int(theirs.Fd()), int(file.Fd()))
	theirs.Close()
	file.Close()
	if err != nil {
		return End{}, fmt.Errorf("start the process that holds the lock: %w", err)
	}
	g.guard(signals, children, questions(conn))
	return g.end(), nil
}

// start starts the holder, in a separate process group. It inherits conn and shared under their
// numbers here, so that they do not use the numbers of the command's descriptors.
func (g *guardian) start(conn, shared int) error {
	self, err := thisProgram()
	if err != nil {
		return err
	}
	for _, fd := range []int{conn, shared} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	proc, err := os.StartProcess(self, os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d,%d,%d", linkVariable, conn, shared, unix.Getpgrp())),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &unix.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return err
	}
	g.holder = proc.Pid
	return proc.Release()
}

// thisProgram is the file of this program. Where /proc is not mounted, as in a chroot, only its first
// argument names it.
func thisProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		return self, nil
	}
	if self, lerr := exec.LookPath(os.Args[0]); lerr == nil {
		return self, nil
	}
	return "", err
}

// guard returns when the holder has ended, and, if it has left a command behind, everything that
// the command started has ended too.
func (g *guardian) guard(signals, children <-chan os.Signal, asked <-chan question) {
	timer := time.NewTimer(glance)
	defer timer.Stop()
	for !g.ended || g.shared.run() != 0 && anyLeft() {
		select {
		case sig := <-signals:
			g.forward(sig)
		case q := <-asked: // this process can answer, so the job is not stopped
			g.keep(q.proof)
			g.send(isAwake)
		case <-children:
		case <-timer.C:
		}
		g.reap()
		if run := g.shared.run(); run != 0 {
			if run != g.run {
				g.begin(run)
			}
			timer.Reset(g.watch.check(g))
		} else {
			timer.Reset(glance)
		}
	}
}

// begin starts watching another run of the command.
func (g *guardian) begin(run int64) {
	grace := time.Duration(g.shared.grace.Load())
	reserve := reserveOf(grace) / 2 // later than the holder does
	g.run, g.watch = run, &watchman{h: g, grace: grace, reserve: reserve, notice: reserve}
}

// forward sends a signal to the holder, as often as it came. What the terminal sent, the command
// received too.
func (g *guardian) forward(sig os.Signal) {
	number := sig.(syscall.Signal)
	alone, job := g.senders.of(number)
	for range job {
		g.send(byte(number) | fromTerminal)
	}
	for range alone {
		g.send(byte(number))
	}
}

// send sends a message without waiting. If the holder is stopped and reads none, it misses those
// for which the system has no room, because the deadline does not wait. A time limit would not
// help: if this process is late, as on a busy machine, the limit passes before the message is
// written.
func (g *guardian) send(message byte) {
	_ = g.conn.Control(func(fd uintptr) {
		for {
			if _, err := unix.Write(int(fd), []byte{message}); err != unix.EINTR {
				return
			}
		}
	})
}

// reap waits for those children that have ended: the holder, and orphans.
func (g *guardian) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(anyChild(g.holder), &ws, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || pid <= 0:
			return
		case pid == g.holder:
			g.ended, g.status = true, ws
		}
	}
}

// Err is why the command has to end, for the watchman.
func (g *guardian) Err() error {
	if g.ended {
		return errHolderGone
	}
	return nil
}

// Deadline is the holder's, as last written.
func (g *guardian) Deadline() time.Time {
	return g.shared.until(awake)
}

// signal sends sig to all that the holder started, but not to the holder. If that was stopped, it stays
// stopped until it is killed.
func (g *guardian) signal(sig unix.Signal) {
	isHolder := func(p relative) bool { return p.pid == g.holder }
	signalAll(slices.DeleteFunc(below(os.Getpid(), processes()), isHolder), sig)
}

// kill kills the holder, whose key then stays until its lease expires, and all that it started. It does
// nothing if the run has ended meanwhile. It lists the processes before, because after that they may
// have no parent. The holder, which waits for its KILL, is killed even if the list lacks it.
func (g *guardian) kill() {
	all := below(os.Getpid(), processes())
	if !g.shared.strike(g.run) {
		return
	}
	if !g.ended {
		_ = unix.Kill(g.holder, unix.SIGKILL)
	}
	signalAll(all, unix.SIGKILL)
}

// end returns how the holder ended, after guard.
func (g *guardian) end() End {
	running := g.shared.run() != 0
	late := g.watch.cause == ErrRunningOut && (running || g.status.Signaled())
	switch {
	case late, running:
		end := End{Err: errHolderGone, Until: g.Deadline()}
		if late {
			end.Err = errNotExtended
		}
		if running && g.reaper {
			end.Remains = g.shared.remains
		}
		return end
	case g.status.Signaled():
		return End{Signal: g.status.Signal()}
	}
	return End{Code: g.status.ExitStatus()}
}

// inForeground reports whether this process has a controlling terminal, and is in its
// foreground.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
