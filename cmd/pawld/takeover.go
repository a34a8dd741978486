package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/statefile"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/tlsfiles"
	"github.com/pawl-locks/pawl/observe"
)

// start is connect, but a signal interrupts it, and what the predecessor left then stays in the state
// directory. If connect was faster, start returns the signal. A second signal ends the waiting, as in
// end.
func (d *daemon) start(ctx context.Context, rules *policy.Policy, signals <-chan os.Signal) (early os.Signal, err error) {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	connected := make(chan error, 1)
	go func() { connected <- d.connect(ctx, rules) }() // returns, or the process ends
	for {
		select {
		case err := <-connected:
			return early, err
		case sig := <-signals:
			switch {
			case early == nil:
				d.log.Info("stopping before it has taken over", "signal", sig.String())
				early = sig
				interrupt()
			case sig != syscall.SIGHUP:
				return nil, errors.New("a second signal came, and the takeover had not ended: what the predecessor left is left to the next pawld")
			}
		}
	}
}

// connect makes the client, which connects to etcd when it is needed, and takes over what a predecessor
// left. That stays in the state directory until it is taken over, whatever ends the process.
func (d *daemon) connect(ctx context.Context, rules *policy.Policy) (err error) {
	cfg := pawl.Config{
		Endpoints: d.endpoints, Username: d.user, Password: d.password, Namespace: d.namespace, Lazy: true, SyncEvery: d.syncEvery, TokenFloor: fencing.Token(d.tokenFloor), Logger: d.log,
		Observer: observe.Func(func(ctx context.Context, ev observe.Event) { d.service.Observe(ctx, ev) }),
	}
	names := tlsfiles.Names{CA: d.cacert, Cert: d.cert, Key: d.key}
	if _, err = tlsfiles.Open(names, tlsfiles.Labels{CA: "--cacert", Pair: "--cert and --key"}); err != nil {
		return err
	}
	cfg.TLSFiles = pawl.TLSFiles(names)
	switch d.client, err = pawl.Dial(ctx, cfg); {
	case ctx.Err() != nil && err != nil: // nothing is read or taken over yet
		return service.ErrInterrupted
	case err != nil:
		return err
	}
	host, _ := os.Hostname()
	d.service = service.New(d.client, service.Config{
		Owner: fmt.Sprintf("pawld %s:%d", host, os.Getpid()), Etcd: strings.Join(d.endpoints, ", "), Logger: d.log, LockDelay: d.lockDelay,
		Registry: registry.Config{
			DefaultTTL: min(10*time.Second, d.maxTTL), MinTTL: minTTL, MaxTTL: d.maxTTL,
			Sessions: d.sessions, SessionsOf: rules.Sessions, Locks: d.locks, Keep: time.Minute,
		},
	})
	if d.dir == nil {
		return nil
	}
	left, ok, err := d.left()
	if err != nil {
		return errors.Join(err, d.client.Close())
	}
	if !ok {
		return nil
	}
	left = left.Claimed()
	if err := bounded(d.dir.Write)(left); err != nil { // without it, nobody could continue if this process ends
		return errors.Join(err, d.client.Close())
	}
	taken, err := d.service.Resume(ctx, left)
	switch {
	case errors.Is(err, service.ErrInterrupted):
		d.log.Info("what the predecessor left is left to the next pawld")
		return err // nothing is closed, because that would remove what is left
	case err != nil:
		d.log.Warn("the predecessor's locks are lost", "cause", err)
	default:
		d.log.Info("took over", "locks", taken, "sessions", len(left.Sessions))
	}
	if err := d.dir.Discard(); err != nil { // who takes it over again would not know what is held later
		return fmt.Errorf("what is taken over is left to the next pawld, because its state cannot be removed: %w", err)
	}
	return nil
}

// left is what the state directory has of a predecessor. If the file cannot be used, it returns an
// error, unless --discard-state says otherwise.
func (d *daemon) left() (left service.Saved, ok bool, err error) {
	left, ok, err = d.dir.Read()
	switch {
	case !errors.Is(err, statefile.ErrUnusable):
		return left, ok, err
	case !d.discardState:
		return left, false, fmt.Errorf("%w. Start the pawld that wrote it, or mend the file; with --discard-state pawld removes it, its clients lose their locks, and nobody gets these for as long as the predecessor's session at etcd lasts: twice its --max-ttl", err)
	}
	d.log.Warn("the predecessor's state is discarded: its clients lose their locks, which stay blocked until its session at etcd has expired", "cause", err)
	return left, false, d.dir.Discard()
}
