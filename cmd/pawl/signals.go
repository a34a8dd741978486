package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that a running command is sent.
var forwarded = []os.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH,
}

// deadly are those of them that end pawl where there is no command.
var deadly = map[os.Signal]bool{unix.SIGTERM: true, unix.SIGINT: true, unix.SIGHUP: true, unix.SIGQUIT: true}

// interrupted is the cause of a wait that a signal ended.
type interrupted struct{ signal os.Signal }

func (i *interrupted) Error() string { return fmt.Sprintf("ended by signal: %v", i.signal) }

// signals are this process's, from one moment on. Those that it was started to
// ignore, as by nohup(1), stay ignored.
type signals struct{ ch chan os.Signal }

// catch begins to catch. Beside those to forward it swallows TSTP, which would
// stop the renewals and not the command, and PIPE, which would end pawl without a release.
func catch() *signals {
	s := &signals{ch: make(chan os.Signal, 16)}
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(s.ch, sig)
		}
	}
	swallowed := make(chan os.Signal, 1)
	signal.Notify(swallowed, unix.SIGTSTP, unix.SIGPIPE)
	return s
}

// ends returns a ctx that a deadly signal cancels. stop, which is to be called,
// ends that; signals that come later stay in s.
func (s *signals) ends(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	rest := s.listen(cancel)
	return ctx, func() {
		rest()
		cancel(nil)
	}
}

// listen calls cancel at a deadly signal, until stop, which is to be called.
func (s *signals) listen(cancel context.CancelCauseFunc) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(gone)
		for {
			select {
			case sig := <-s.ch:
				if deadly[sig] {
					cancel(&interrupted{sig})
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-gone
	}
}

// number is sig's number.
func number(sig os.Signal) syscall.Signal {
	n, _ := sig.(syscall.Signal)
	return n
}
