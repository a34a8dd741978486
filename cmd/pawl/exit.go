package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/lease"
)

// The exit codes. A command's own code, and 128+n for a command that signal n
// ended, are passed on as they are.
const (
	exitOK          = 0
	exitWrong       = 1   // demo, doctor: something is not as it should be; show -q: nobody holds it
	exitLost        = 121 // the lock or term was lost, and the command was ended for it
	exitUsage       = 122 // wrong arguments
	exitNoCluster   = 123 // no cluster answers, or it refuses the credentials
	exitNotAcquired = 124 // -n or --wait: another holds it (-E picks another code)
	exitFailed      = 125 // anything else that pawl could not do
	exitNoExec      = 126 // the command is there and cannot be run
	exitNotFound    = 127 // there is no such command
	exitSignal      = 128 // + n: signal n ended the command, or pawl while it waited
)

const exitHelp = `Exit codes:
  the command's own; 128+n when signal n ended it, or ended the wait;
  of Ctrl-C pawl dies itself, as the command does, so that a shell's loop ends
  121  the lock was lost, or about to be: the command was ended for it
  122  wrong usage
  123  no cluster answers, or it refuses the credentials
  124  not acquired with -n or within --wait (-E picks another code)
  125  pawl failed otherwise
  126  the command cannot be run
  127  there is no such command`

// exitError is an error that has an exit code of its own. Without an err it is
// silent.
type exitError struct {
	code   int
	err    error
	signal syscall.Signal // not 0: the process is to die of it
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exit(code int, err error) error { return &exitError{code: code, err: err} }

// endedBy is for what sig ended, the command or the wait, err saying so if not nil. Of
// INT pawl dies itself, as a shell's own command does: a loop of the shell ends then too.
func endedBy(sig syscall.Signal, err error) error {
	e := &exitError{code: exitSignal + int(sig), err: err}
	if sig == unix.SIGINT {
		e.signal = sig
	}
	return e
}

func usage(format string, args ...any) error {
	return exit(exitUsage, fmt.Errorf(format, args...))
}

// codeOf is the exit code for what a command returned.
func codeOf(err error) int {
	var e *exitError
	var sig *supervise.Interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &sig):
		return exitSignal + int(sig.Signal)
	}
	return exitFailed
}

// wasEnded reports whether err is of a command that was ended for a loss, and not
// a command's own exit code that is the same.
func wasEnded(err error) bool {
	var e *exitError
	return errors.As(err, &e) && e.code == exitLost && e.err != nil
}

// reach gives an error of a call that needed the cluster its exit code.
func reach(err error) error {
	var e *exitError
	var sig *supervise.Interrupted
	switch {
	case err == nil, errors.As(err, &e), errors.As(err, &sig):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lease.ErrExpired), errors.Is(err, pawl.ErrClusterChanged):
		return exit(exitNoCluster, err)
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return exit(exitNoCluster, err)
	}
	if cluster.IsTokenRefusal(err) {
		return exit(exitNoCluster, err)
	}
	return err
}

// run runs pawl, whose commands root has, with args, and returns its exit code, unless it is to die of a
// signal.
func run(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	out := &output{w: os.Stdout}
	root.SetOut(out)
	err := out.check(root.Execute())
	var e *exitError
	if err != nil && !(errors.As(err, &e) && e.err == nil) {
		complain(err)
	}
	if hint := hintFor(err); hint != "" {
		fmt.Fprintln(os.Stderr, "pawl: "+hint)
	}
	if e != nil && e.signal != 0 {
		supervise.Die(e.signal)
	}
	return codeOf(err)
}

// complain says err on stderr.
func complain(err error) {
	fmt.Fprintln(os.Stderr, "pawl: "+strings.TrimPrefix(err.Error(), "pawl: "))
}

// hintFor says what to do about an error with an exit code of our own; "": its
// text says it all.
func hintFor(err error) string {
	var e *exitError
	if !errors.As(err, &e) || e.err == nil {
		return ""
	}
	switch e.code {
	case exitUsage:
		return "see pawl help"
	case exitNoCluster:
		if refusesUser(err) {
			return checkUser
		}
		return "is there a cluster at --endpoints, or ETCDCTL_ENDPOINTS? To try things, use pawl dev, or --embed"
	}
	return ""
}

const checkUser = "check --user, or ETCDCTL_USER and ETCDCTL_PASSWORD"

// refusesUser reports whether err is how etcd refuses a user, or the want of one.
func refusesUser(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.FailedPrecondition:
		return true
	}
	return false
}
