package supervise

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that a running command is sent.
var forwarded = []os.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH,
}

// A Signal is one that this process received, or its guardian.
type Signal struct {
	Number syscall.Signal
	Job    bool // the terminal sent it to the whole job, the command included
}

// Deadly reports whether s ends a program that does not handle it, and is meant to.
func (s Signal) Deadly() bool {
	switch s.Number {
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGKILL:
		return true
	}
	return false
}

// Interrupted is the cause of a wait that a signal ended.
type Interrupted struct{ Signal syscall.Signal }

func (i *Interrupted) Error() string { return fmt.Sprintf("ended by signal: %v", i.Signal) }

// Signals are those that a process has received since a call of Catch or Inherited.
type Signals struct {
	C <-chan Signal
}

// Catch begins to catch signals to this process, except those that it was started to ignore, as by
// nohup(1). It drops PIPE, which would end the process without a release.
func Catch() *Signals {
	from, to := make(chan os.Signal, 16), make(chan Signal, 16)
	notify(from, forwarded...)
	drop(unix.SIGPIPE)
	go pass(from, to) // ends with the process, as the signals do
	return &Signals{to}
}

// pass passes signals on, and does not return.
func pass(from <-chan os.Signal, to chan<- Signal) {
	for sig := range from {
		to <- Signal{Number: sig.(syscall.Signal)}
	}
}

// A receiver is a process of pawl that receives signals for the command.
type receiver int

const (
	byGuardian receiver = iota
	byHolder
)

// together is how far apart the guardian and the holder receive a signal that somebody sends to
// both, as at the stop of a service, whose processes are all sent TERM.
const together = time.Second

// pairs finds out which signals came to both the guardian and the holder, so that they are passed
// on once. The zero pairs is ready.
type pairs struct {
	mu      sync.Mutex
	waiting map[syscall.Signal]arrival
}

// arrival is a signal that one of the two received more often than the other, and how much more
// often.
type arrival struct {
	by   receiver
	n    int
	last time.Time
}

// first reports whether sig, received at now, is to be passed on, because the other did not receive
// it just before.
func (p *pairs) first(sig syscall.Signal, by receiver, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.waiting[sig]
	if now.Sub(a.last) > together {
		a = arrival{}
	}
	second := a.n > 0 && a.by != by
	if second {
		a.n--
	} else {
		a = arrival{by, a.n + 1, now}
	}
	if p.waiting == nil {
		p.waiting = make(map[syscall.Signal]arrival)
	}
	p.waiting[sig] = a
	return !second
}

// notify requests sigs, except for ignored ones.
func notify(to chan<- os.Signal, sigs ...os.Signal) {
	for _, sig := range sigs {
		if !signal.Ignored(sig) {
			signal.Notify(to, sig)
		}
	}
}

// drop makes sigs have no effect in this process. Unlike ignored ones they have their usual
// effect in programs that this one starts.
func drop(sigs ...os.Signal) { notify(make(chan os.Signal, 1), sigs...) }

// Ends returns a ctx that a deadly signal cancels. The caller has to call stop. Later signals stay
// in s.
func (s *Signals) Ends(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	rest := s.Listen(cancel)
	return ctx, func() {
		rest()
		cancel(nil)
	}
}

// Listen calls cancel at a deadly signal, until the caller calls stop, which it has to call.
func (s *Signals) Listen(cancel context.CancelCauseFunc) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(gone)
		for {
			select {
			case sig := <-s.C:
				if sig.Deadly() {
					cancel(&Interrupted{sig.Number})
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

// Die ends this process by sig, which is INT, as sig ends a program that does not handle it, so
// that a shell's loop ends too. It returns if this process was started to ignore sig.
func Die(sig syscall.Signal) {
	if signal.Ignored(sig) {
		return
	}
	signal.Reset(sig)
	_ = unix.Kill(os.Getpid(), sig)
	select {} // until it arrives
}
