package cli

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

// These are the exit codes. A command's exit code, and 128+n for a command that signal n ended, are
// passed on as they are.
const (
	ExitOK          = 0
	ExitWrong       = 1   // demo, doctor: something is not as it should be; show -q: nobody holds it
	ExitStalled     = 120 // the command made no progress for as long as --stall allows, and was ended for it
	ExitLost        = 121 // the lock or term was lost, and the command was ended for it
	ExitUsage       = 122 // wrong arguments
	ExitNoCluster   = 123 // no cluster answers, or it refuses the credentials
	ExitNotAcquired = 124 // -n or --wait: another holds it (-E picks another code)
	ExitFailed      = 125 // anything else that pawl could not do
	ExitNoExec      = 126 // the command is there and cannot be run
	ExitNotFound    = 127 // there is no such command
	exitSignal      = 128 // + n: signal n ended the command, or pawl while it waited
)

const ExitHelp = `Exit codes:
  the command's own code, or 128+n if signal n ended the command or the wait
       (at Ctrl-C pawl dies of INT, as the command does, so that a shell's loop ends)
  120  COMMAND made no progress within --stall, and pawl ended it
  121  the lock was lost, or about to be lost, and pawl ended the command
  122  wrong usage
  123  no cluster answers, or it refuses the credentials
  124  not acquired with -n or within --wait (-E sets another code)
  125  any other failure of pawl
  126  the command cannot be run
  127  the command does not exist`

// exitError is an error with an exit code. Without an err it is silent.
type exitError struct {
	code   int
	err    error
	signal syscall.Signal // if not 0, the process has to die of it
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func Exit(code int, err error) error { return &exitError{code: code, err: err} }

// EndedBy is the error of a command, or of a wait, that sig ended. err, if not nil, says so. If sig
// is INT, pawl dies of it, as a shell's command does, so that a loop of the shell ends too.
func EndedBy(sig syscall.Signal, err error) error {
	e := &exitError{code: exitSignal + int(sig), err: err}
	if sig == unix.SIGINT {
		e.signal = sig
	}
	return e
}

func Usage(format string, args ...any) error {
	return Exit(ExitUsage, fmt.Errorf(format, args...))
}

// CodeOf is the exit code for a command's error.
func CodeOf(err error) int {
	var e *exitError
	var sig *supervise.Interrupted
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &sig):
		return exitSignal + int(sig.Signal)
	}
	return ExitFailed
}

// WasEnded reports whether err says that a command was ended because of a loss, or a stall. It returns false
// for a command's exit code that has the same value.
func WasEnded(err error) bool {
	var e *exitError
	return errors.As(err, &e) && (e.code == ExitLost || e.code == ExitStalled) && e.err != nil
}

// Reach adds an exit code to the error of a call that needed the cluster.
func Reach(err error) error {
	var e *exitError
	var sig *supervise.Interrupted
	switch {
	case err == nil, errors.As(err, &e), errors.As(err, &sig):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lease.ErrExpired), errors.Is(err, pawl.ErrClusterChanged):
		return Exit(ExitNoCluster, err)
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return Exit(ExitNoCluster, err)
	}
	if cluster.IsTokenRefusal(err) {
		return Exit(ExitNoCluster, err)
	}
	return err
}

// Run runs pawl with args and returns its exit code. root has pawl's commands. If pawl has to die
// of a signal, Run does not return.
func Run(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	out := newOutput(os.Stdout)
	root.SetOut(out)
	cmd, err := root.ExecuteC()
	err = out.check(err)
	var e *exitError
	if err != nil && !(errors.As(err, &e) && e.err == nil) {
		Complain(err)
	}
	if hint := hintFor(cmd, err); hint != "" {
		fmt.Fprintln(Stderr, "pawl: "+hint)
	}
	Stderr.Await(NoticeGrace)
	if e != nil && e.signal != 0 {
		supervise.Die(e.signal)
	}
	return CodeOf(err)
}

// Complain prints err on stderr.
func Complain(err error) {
	fmt.Fprintln(Stderr, "pawl: "+strings.TrimPrefix(err.Error(), "pawl: "))
}

// hintFor returns what to do about an error of cmd, or "" if its text is enough.
func hintFor(cmd *cobra.Command, err error) string {
	if cluster.IsNoSpace(err) {
		return "etcd's database is full: compact it and defragment each member, then etcdctl alarm disarm. pawl doctor shows the alarm"
	}
	var e *exitError
	if !errors.As(err, &e) || e.err == nil {
		return ""
	}
	switch e.code {
	case ExitUsage:
		if cmd.HasParent() {
			return "see " + cmd.CommandPath() + " --help"
		}
		return "see pawl help"
	case ExitNoCluster:
		switch {
		case RefusesUser(err):
			return CheckUser
		case cluster.IsNoLeader(err):
			return "most members of the cluster have to run, and to reach each other: pawl doctor shows which answer"
		}
		return "is there a cluster at --endpoints, or ETCDCTL_ENDPOINTS? To try things, use pawl dev, or --embed"
	}
	return ""
}

const CheckUser = "check --user, or ETCDCTL_USER and ETCDCTL_PASSWORD"

// RefusesUser reports whether err says that etcd refuses the user, or requires one.
func RefusesUser(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.FailedPrecondition:
		return true
	}
	return false
}
