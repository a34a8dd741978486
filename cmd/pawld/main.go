// Pawld acquires locks and elections on etcd for programs in any language, over a Unix socket and
// mutual TLS. See docs/how-to/pawld.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/version"
)

// These are the exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signalled()))
}

// signalled receives the signals that stop pawld. A hangup is one, unless pawld was started to
// ignore it (nohup). A closed reader of its output is none.
func signalled() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

// run is main, with its environment as arguments.
func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	o, err := parse(args, stdout)
	written, log := logTo(stderr, o.verbose)
	defer written.Close(notify.LogGrace)
	stderr = written.Writer(stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "pawld:", err)
		fmt.Fprintln(stderr, "pawld: see pawld --help")
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, "pawld version", version.String())
		return 0
	}
	if err := serve(context.Background(), o, log, signals); err != nil {
		fmt.Fprintln(stderr, "pawld:", err)
		return exitFailed
	}
	return 0
}

// logTo returns the daemon's log. Nobody waits for stderr, whose reader may stand still (rule T6).
func logTo(stderr io.Writer, verbose bool) (*notify.Log, *slog.Logger) {
	l := notify.NewLog(func(m notify.Missed) {
		slog.New(slog.NewTextHandler(stderr, nil)).Log(context.Background(), m.Level, "log records were dropped", "count", m.Count)
	})
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return l, l.Logger(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}), level)
}
