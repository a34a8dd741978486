package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

// worker is a contender's process.
type worker struct {
	name   string
	facts  chan fact // closed when it reports no more
	exited chan struct{}

	cmd    *exec.Cmd
	stdin  io.WriteCloser // the process exits when this is closed, so also when we die
	stdout io.Reader
	stderr bytes.Buffer // read after exited
	end    error        // read after exited
}

// mostFacts is more than a contender reports in its life, so that it never waits for the demo
// to read.
const mostFacts = 256

// startWorker runs this program again, as a contender.
func startWorker(name string, args ...string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(name, exec.Command(self, append([]string{"demo-worker", "--worker", name}, args...)...))
}

// startProcess starts a process of the demo.
func startProcess(name string, cmd *exec.Cmd) (w *worker, err error) {
	w = &worker{name: name, cmd: cmd, facts: make(chan fact, mostFacts), exited: make(chan struct{})}
	w.cmd.Stderr = &w.stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{}
	supervise.DieWithParent(w.cmd.SysProcAttr)
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.stdout, err = w.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go w.live(started) // ends with the process; the crew waits for it
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return w, nil
}

// live starts the process, reads its facts and waits for its end.
func (w *worker) live(started chan<- error) {
	// To the kernel, "die with the parent" means this thread, which must last as long as the
	// process does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := w.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(w.exited)
	for d := json.NewDecoder(w.stdout); ; {
		var f fact
		if d.Decode(&f) != nil {
			break
		}
		w.facts <- f
	}
	close(w.facts)
	w.end = w.cmd.Wait()
}

// next waits for the next fact, which must be what.
func (w *worker) next(ctx context.Context, what string) (fact, error) {
	select {
	case f, ok := <-w.facts:
		switch {
		case !ok:
			<-w.exited
			return fact{}, fmt.Errorf("%s ended (%v) where it should have said %q; its stderr: %s", w.name, w.end, what, &w.stderr)
		case f.What != what:
			return f, fmt.Errorf("%s says %q, want %q: %+v", w.name, f.What, what, f)
		}
		return f, nil
	case <-ctx.Done():
		return fact{}, fmt.Errorf("waiting for %s to say %q: %w", w.name, what, context.Cause(ctx))
	}
}

// finish waits for the process's end, which must be without an error.
func (w *worker) finish(ctx context.Context) error {
	select {
	case <-w.exited:
		if w.end != nil {
			return fmt.Errorf("%s: %w; its stderr: %s", w.name, w.end, &w.stderr)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to end: %w", w.name, context.Cause(ctx))
	}
}

// stop stops the process and returns when the kernel says that it has stopped.
func (w *worker) stop(ctx context.Context) error {
	pid := w.cmd.Process.Pid
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", w.name, err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var ws unix.WaitStatus
		if got, err := unix.Wait4(pid, &ws, unix.WUNTRACED|unix.WNOHANG, nil); err == nil && got == pid {
			if ws.Stopped() {
				return nil
			}
			return fmt.Errorf("%s ended instead of stopping", w.name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("stop %s: %w", w.name, context.Cause(ctx))
		}
	}
}

func (w *worker) goOn() error { return w.cmd.Process.Signal(unix.SIGCONT) }

// ask lets a careless contender look at its lock and write.
func (w *worker) ask() {
	_, _ = w.stdin.Write([]byte{'\n'}) // if it has ended, next says why
}

// crew is every process that the demo has started.
type crew []*worker

// dismiss kills those that still run, stopped ones too, and waits for them.
func (c crew) dismiss() {
	for _, w := range c {
		_ = w.cmd.Process.Kill()
		_ = w.stdin.Close()
		<-w.exited
	}
}
