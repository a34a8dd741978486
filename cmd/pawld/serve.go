package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/handlers"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/locks"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/state"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/internal/tlsfiles"
	"github.com/pawl-locks/pawl/observe"
)

// A daemon is the running daemon's parts.
type daemon struct {
	options
	log     *slog.Logger
	dir     *state.Dir // nil: no state directory
	client  *pawl.Client
	service *locks.Service
	api     *handlers.Server
	servers []*http.Server
	failed  chan error
	all     []listener // for clients, then for health

	reported atomic.Int64  // when a refused connection was last reported
	serves   chan struct{} // closed when the locks are taken over, and the fields above do not change any more
}

// serve runs until a signal comes, or something fails.
func serve(ctx context.Context, o options, stderr io.Writer, signals <-chan os.Signal) (err error) {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	d := &daemon{options: o, log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), failed: make(chan error, 8), serves: make(chan struct{})}
	rules, err := o.loadPolicy()
	if err != nil {
		return err
	}
	if o.stateDir != "" {
		if d.dir, err = state.Open(o.stateDir); err != nil {
			return fmt.Errorf("--state-dir: %w", err)
		}
		defer d.dir.Close()
	}
	if o.embed {
		endpoint, stop, err := startEmbedded()
		if err != nil {
			return fmt.Errorf("--embed: %w", err)
		}
		defer func() { err = errors.Join(err, stop()) }()
		d.endpoints = []string{endpoint}
		d.log.Info("etcd serves", "endpoint", endpoint)
	}
	all, err := o.listeners(d.log) // before anything is taken over
	if err != nil {
		return err
	}
	limited(all, d.connections, d.refused)
	d.all = all
	var early os.Signal
	if err = d.serveHealth(); err == nil {
		early, err = d.start(ctx, rules, signals)
	}
	if err != nil {
		for _, l := range all {
			_ = l.Close()
		}
		for _, s := range d.servers {
			_ = s.Close()
		}
		if errors.As(err, new(*locks.Interrupted)) {
			return nil
		}
		return err
	}
	d.api = &handlers.Server{Locks: d.service, Client: d.client, Policy: rules, Logger: d.log, Calls: peer.NewLimit("calls under way", d.calls), Upkeep: upkeepOf(rules)}
	handler := d.api.Handler()
	for _, l := range all {
		d.serve(l, handler)
	}
	close(d.serves)
	if early != nil {
		return d.end(early, signals)
	}
	select {
	case sig := <-signals:
		return d.end(sig, signals)
	case err := <-d.failed:
		return errors.Join(err, d.end(syscall.SIGTERM, signals))
	}
}

func (o options) loadPolicy() (*policy.Policy, error) {
	if o.policy == "" {
		return nil, nil
	}
	rules, err := policy.Load(o.policy)
	if err != nil {
		return nil, err
	}
	return rules, rules.Fits(o.sessions, o.locks)
}

// upkeepOf bounds renewals and releases: to twice as many as an identity can have a use for, with one
// Renew for each session and one Release for each lock.
func upkeepOf(rules *policy.Policy) *peer.Limit {
	return peer.NewLimitOfEach("renewals and releases under way", func(identity string) int {
		return 2 * (rules.Sessions(identity) + rules.Locks(identity))
	})
}

// start is connect, which a signal interrupts: then what the predecessor left stays in the state directory. If
// connect was faster, start returns the signal. A second one ends the waiting, as in end.
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
				return nil, errors.New("a second signal came, and the takeover had not ended: if the predecessor's locks are lost, they are blocked until pawld's session at etcd has expired")
			}
		}
	}
}

// connect makes the client, which connects to etcd when it is needed, and takes over what a
// predecessor left.
func (d *daemon) connect(ctx context.Context, rules *policy.Policy) (err error) {
	cfg := pawl.Config{
		Endpoints: d.endpoints, Username: d.user, Password: d.password, Namespace: d.namespace, Lazy: true, SyncEvery: d.syncEvery, Logger: d.log,
		Observer: observe.Func(func(ctx context.Context, ev observe.Event) { d.service.Observe(ctx, ev) }),
	}
	names := tlsfiles.Names{CA: d.cacert, Cert: d.cert, Key: d.key}
	if _, err = tlsfiles.Open(names, tlsfiles.Labels{CA: "--cacert", Pair: "--cert and --key"}, nil); err != nil {
		return err
	}
	cfg.TLSFiles = pawl.TLSFiles(names)
	if d.client, err = pawl.Dial(ctx, cfg); err != nil {
		return err
	}
	host, _ := os.Hostname()
	d.service = locks.New(d.client, locks.Config{
		Owner: fmt.Sprintf("pawld %s:%d", host, os.Getpid()), Etcd: strings.Join(d.endpoints, ", "), Logger: d.log,
		Table: table.Config{
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
	taken, err := d.service.Resume(ctx, left)
	var interrupted *locks.Interrupted
	switch {
	case errors.As(err, &interrupted):
		if interrupted.Own { // otherwise it is there still
			if err := bounded(d.dir.Write)(interrupted.Left); err != nil {
				return errors.Join(fmt.Errorf("the predecessor's locks are lost, and blocked until pawld's session at etcd has expired: %w", err), d.client.Close())
			}
		}
		d.log.Info("what the predecessor left is left to the next pawld")
		_ = d.client.Close() // nothing of its own is open
		return err
	case err != nil:
		d.log.Warn("the predecessor's locks are lost", "cause", err)
	default:
		d.log.Info("took over", "locks", taken, "sessions", len(left.Sessions))
	}
	if err := d.dir.Discard(); err != nil { // it is of no use to anybody any more
		d.log.Warn("the predecessor's state is not removed", "cause", err)
	}
	return nil
}

// left is what the state directory has of a predecessor, which is refused where the file cannot be used, unless
// --discard-state says otherwise.
func (d *daemon) left() (left locks.Saved, ok bool, err error) {
	left, ok, err = d.dir.Read()
	switch {
	case !errors.Is(err, state.ErrUnusable):
		return left, ok, err
	case !d.discardState:
		return left, false, fmt.Errorf("%w. Start the pawld that wrote it, or mend the file; with --discard-state pawld removes it, its clients lose their locks, and nobody gets these for as long as the predecessor's session at etcd lasts: twice its --max-ttl", err)
	}
	d.log.Warn("the predecessor's state is discarded: its clients lose their locks, which stay blocked until its session at etcd has expired", "cause", err)
	return left, false, d.dir.Discard()
}

// server is the server of one listener.
func (d *daemon) server(l listener, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(l.tls != nil)
	protocols.SetUnencryptedHTTP2(l.tls == nil)
	return &http.Server{
		Handler: handler, Protocols: protocols, TLSConfig: l.tls, ConnContext: l.peers.Context, ConnState: l.peers.State,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: handlers.ReadWait, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		WriteTimeout: d.maxTTL + time.Minute, // more than any call is parked for
		ErrorLog:     slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
}

// serve serves one listener.
func (d *daemon) serve(l listener, handler http.Handler) {
	server := d.server(l, handler)
	d.servers = append(d.servers, server)
	d.log.Info("serving", "address", l.Addr().String())
	go func() { // returns after Shutdown
		var err error
		if l.tls != nil {
			err = server.ServeTLS(l, "", "")
		} else {
			err = server.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			d.failed <- fmt.Errorf("serve %v: %w", l.Addr(), err)
		}
	}()
}

// refused reports a connection beyond the limit of a listener, and then no other for a while.
func (d *daemon) refused(at net.Addr, err error) {
	if now := time.Now(); now.Sub(time.Unix(0, d.reported.Load())) > time.Minute {
		d.reported.Store(now.UnixNano())
		d.log.Warn("a connection is refused", "listener", at.String(), "cause", err)
	}
}

// healthConnections is how many connections --health has. A newer one takes the place of the oldest, so
// that no client keeps a probe out.
const healthConnections = 64

// serveHealth serves --health.
func (d *daemon) serveHealth() error {
	if d.health == "" {
		return nil
	}
	l, err := net.Listen("tcp", d.health)
	if err != nil {
		return fmt.Errorf("--health: %w", err)
	}
	limit := peer.NewLimit("connections", healthConnections)
	at := l.Addr()
	l = limit.ListenNewest(l, func(err error) { d.refused(at, err) })
	d.all = append(d.all, listener{Listener: l, limit: limit})
	server := &http.Server{
		Handler: handlers.Named(d.healthHandler()), MaxHeaderBytes: 16 << 10,
		ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	d.servers = append(d.servers, server)
	d.log.Info("health", "address", l.Addr().String())
	go func() { _ = server.Serve(l) }() // returns after Shutdown
	return nil
}

// shutdownWait is how long calls may take to be answered, and writeWait how long their last bytes may
// take to be written.
const (
	shutdownWait = 3 * time.Second
	writeWait    = 100 * time.Millisecond
)

// shut ends the servers once no call is under way. It does not wait for connections that have sent
// nothing, or for streams of gRPC's reflection: meanwhile the clients' beliefs run out.
func (d *daemon) shut(hurry context.Context) {
	ctx, end := context.WithTimeout(hurry, shutdownWait)
	defer end()
	var servers sync.WaitGroup
	for _, s := range d.servers {
		servers.Go(func() { // returns when ctx ends, at the latest
			if s.Shutdown(ctx) != nil {
				_ = s.Close()
			}
		})
	}
	go func() { // returns when ctx ends
		select {
		case <-d.api.Idle():
			time.AfterFunc(writeWait, end)
		case <-ctx.Done():
		}
	}()
	servers.Wait()
}

// spaceWait is how long end goes on serving while etcd is out of space: as long as a successor would
// go on trying.
func spaceWait(maxTTL time.Duration) time.Duration { return 2 * maxTTL }

// awaitSpace goes on serving while etcd is out of space, for a while.
func (d *daemon) awaitSpace(ctx context.Context) {
	wait := spaceWait(d.maxTTL)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if d.service.AwaitSpace(ctx, func() {
		d.log.Error("etcd is out of space (NOSPACE), and a successor could take nothing over: pawld goes on serving until the alarm is disarmed",
			"at most", wait, "or until", "another signal")
	}) {
		return
	}
	d.log.Error("etcd is still out of space: all locks are lost unless the alarm is disarmed while the successor tries to take them over", "for", wait)
}

// hurriedWait is how long what waits for nothing may still take after a second signal.
const hurriedWait = time.Second

// end stops the daemon. With SIGTERM or SIGHUP and a state directory it leaves what is held to a
// successor; otherwise it releases it when all promises have passed. A second signal ends all
// waiting, but not another hangup: a terminal that goes away may send several. How long it may take is
// stopWait, in the test that holds the units and manifests to it.
func (d *daemon) end(sig os.Signal, signals <-chan os.Signal) error {
	d.log.Info("stopping", "signal", sig.String())
	second, end := context.WithCancel(context.Background())
	defer end()
	go func() { // returns after second
		for {
			select {
			case again := <-signals:
				if again == syscall.SIGHUP {
					continue
				}
				d.log.Warn("not waiting any more", "signal", again.String())
				d.service.Hurry()
				end()
				return
			case <-second.Done():
				return
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- d.stop(sig != syscall.SIGINT && d.dir != nil, second) }() // returns, or the process ends
	select {
	case err := <-ended:
		return err
	case <-second.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(hurriedWait):
		return errors.New("a second signal came, and not everything had ended: what is left of it is blocked until pawld's session at etcd has expired")
	}
}

// stop is end, with detach where a successor is to take over, until hurry ends.
func (d *daemon) stop(detach bool, hurry context.Context) error {
	if detach {
		d.awaitSpace(hurry)
		d.service.AwaitBeliefs(hurry)
	}
	d.service.Drain()
	d.shut(hurry)
	ctx, cancel := context.WithTimeout(hurry, d.maxTTL+shutdownWait)
	defer cancel()
	if !detach {
		return errors.Join(d.service.Close(ctx), d.client.Close())
	}
	if err := d.service.Detach(bounded(d.dir.Write)); err != nil { // where nothing is left to take over, it is given back
		return errors.Join(err, d.service.Close(ctx), d.client.Close())
	}
	if left := d.client.Close(); left != nil { // the successor removes it, or the lease does
		d.log.Info("not removed yet", "cause", left)
	}
	return nil
}

// stateWait is how long the state directory may take to write a file.
const stateWait = 5 * time.Second

// bounded is write, with an error where that takes too long: the locks of a pawld that waits for its disk
// would be blocked for everybody. What is written later is of no use, and does no harm: without a Handle
// nothing can be taken over, and with it only what etcd still has.
func bounded(write func(locks.Saved) error) func(locks.Saved) error {
	return func(s locks.Saved) error {
		written := make(chan error, 1)
		go func() { written <- write(s) }() // returns, or the process ends
		select {
		case err := <-written:
			return err
		case <-time.After(stateWait):
			return fmt.Errorf("state: not written within %v", stateWait)
		}
	}
}
