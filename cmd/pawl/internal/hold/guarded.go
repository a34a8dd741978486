package hold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/hooks"
)

// lookPath finds the program of argv before anything else is done.
func lookPath(argv []string) (path string, err error) {
	if len(argv) == 0 {
		return "", nil
	}
	path, err = exec.LookPath(argv[0])
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", cli.Exit(cli.ExitNotFound, err)
	}
	return "", cli.Exit(cli.ExitNoExec, err)
}

// guarded calls hold in the process that holds the lock and can run c. The process that the user
// started guards that process, and ends as it does. If the holder fails c, it calls reclaim first. With --stall it
// makes the file that c touches, and removes it even if the holder was killed.
func (o *commonOptions) guarded(c *supervise.Command, hold func() error, reclaim func(supervise.End)) error {
	link, err := supervise.Inherited()
	switch {
	case err != nil:
		return err
	case link != nil:
		c.Link = link
		return hold()
	}
	if text := supervise.Caveat(c.Path); text != "" {
		warn(text)
	}
	if o.stall > 0 {
		remove, err := makeProgressFile()
		if err != nil {
			return fmt.Errorf("--stall: %w", err)
		}
		defer remove()
	}
	end, err := supervise.Guard()
	switch {
	case err != nil:
		return err
	case end.Err != nil:
		reclaim(end)
		return cli.Exit(cli.ExitLost, fmt.Errorf("%s was ended: %w", c.Argv[0], end.Err))
	case end.Signal != 0:
		return cli.EndedBy(end.Signal, nil)
	case end.Code != 0:
		return cli.Exit(end.Code, nil)
	}
	return nil
}

// signalsOf are the signals that c's guardian receives, or, without a c, this process.
func signalsOf(c *supervise.Command) *supervise.Signals {
	if c == nil {
		return supervise.Catch()
	}
	return c.Link.Signals
}

// signalIn is the signal that ended ctx, or nil.
func signalIn(ctx context.Context) *supervise.Interrupted {
	var sig *supervise.Interrupted
	errors.As(context.Cause(ctx), &sig)
	return sig
}

// cut is the error of a wait that sig ended.
func cut(sig *supervise.Interrupted) error { return cli.EndedBy(sig.Signal, sig) }

// A keeper is a lock or a term, as package supervise holds it.
type keeper interface {
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
	Session() *pawl.Session
}

type holding struct{ keeper }

// Keep defers the revocation of the lease, and the deletion of the keys. The session goes on being
// renewed if it has not ended.
func (h holding) Keep() (done func()) { return hooks.SessionOf(h.Session()).DeferRevocation() }

func (h holding) Remains() supervise.Remains {
	return supervise.Remains(hooks.SessionOf(h.Session()).Remains())
}

func (h holding) Proof() *os.File {
	return hooks.ProofOf(h.Session())
}

// commandEnd is pawl's error for a command's end.
func commandEnd(ws unix.WaitStatus, err error) error {
	var start *supervise.StartError
	var sig *supervise.Interrupted
	switch {
	case errors.As(err, &start):
		return cli.Exit(cli.ExitNoExec, err)
	case errors.As(err, &sig):
		return cut(sig)
	case err != nil:
		return cli.Exit(cli.ExitLost, err)
	case ws.Signaled():
		return cli.EndedBy(ws.Signal(), nil)
	case ws.ExitStatus() != 0:
		return cli.Exit(ws.ExitStatus(), nil)
	}
	return nil
}

// warn prints a warning on stderr.
func warn(text string) { fmt.Fprintln(cli.Stderr, "pawl: "+text) }
