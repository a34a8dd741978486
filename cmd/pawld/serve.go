package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	all, err := o.listeners() // before anything is taken over
	if err != nil {
		return err
	}
	limited(all, d.connections, d.refused)
	d.all = all
	if err = d.serveHealth(); err == nil {
		err = d.connect(ctx, rules)
	}
	if err != nil {
		for _, l := range all {
			_ = l.Close()
		}
		for _, s := range d.servers {
			_ = s.Close()
		}
		return err
	}
	d.api = &handlers.Server{Locks: d.service, Client: d.client, Policy: rules, Logger: d.log, Calls: peer.NewLimit("calls under way", d.calls), Upkeep: upkeepOf(rules)}
	handler := d.api.Handler()
	for _, l := range all {
		d.serve(l, handler)
	}
	close(d.serves)
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

// connect makes the client, which connects to etcd when it is needed, and takes over what a
// predecessor left.
func (d *daemon) connect(ctx context.Context, rules *policy.Policy) (err error) {
	cfg := pawl.Config{
		Endpoints: d.endpoints, Username: d.user, Password: d.password, Namespace: d.namespace, Lazy: true, Logger: d.log,
		Observer: observe.Func(func(ctx context.Context, ev observe.Event) { d.service.Observe(ctx, ev) }),
	}
	if cfg.TLS, err = d.etcdTLS(); err != nil {
		return err
	}
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
	left, ok, err := d.dir.Take()
	if err != nil {
		return errors.Join(err, d.client.Close())
	}
	if ok {
		taken, err := d.service.Resume(ctx, left)
		if err != nil {
			d.log.Warn("the predecessor's locks are lost", "cause", err)
		} else {
			d.log.Info("took over", "locks", taken, "sessions", len(left.Sessions))
		}
	}
	return nil
}

func (d *daemon) etcdTLS() (*tls.Config, error) {
	if d.cacert == "" && d.cert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.cacert != "" {
		pem, err := os.ReadFile(d.cacert)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert: %s holds no certificate", d.cacert)
		}
	}
	if d.cert == "" {
		return t, nil
	}
	if _, err := tls.LoadX509KeyPair(d.cert, d.key); err != nil {
		return nil, fmt.Errorf("--cert, --key: %w", err)
	}
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(d.cert, d.key) // the file may have been rotated
		return &pair, err
	}
	return t, nil
}

// serve serves one listener.
func (d *daemon) serve(l listener, handler http.Handler) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(l.tls != nil)
	protocols.SetUnencryptedHTTP2(l.tls == nil)
	server := &http.Server{
		Handler: handler, Protocols: protocols, TLSConfig: l.tls, ConnContext: l.peers.Context, ConnState: l.peers.State,
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		WriteTimeout: d.maxTTL + time.Minute, // more than any call is parked for
		ErrorLog:     slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
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

// healthConnections is how many connections --health has.
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
	own := []listener{{Listener: l}}
	limited(own, healthConnections, d.refused)
	l = own[0].Listener
	d.all = append(d.all, own...)
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
func (d *daemon) shut() {
	ctx, end := context.WithTimeout(context.Background(), shutdownWait)
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

// end stops the daemon. With SIGTERM and a state directory it leaves what is held to a
// successor; otherwise it releases it when all promises have passed. A second signal ends the
// waiting. How long it may take is stopWait, in the test that holds the units and manifests to it.
func (d *daemon) end(sig os.Signal, signals <-chan os.Signal) error {
	d.log.Info("stopping", "signal", sig.String())
	second, end := context.WithCancel(context.Background())
	defer end()
	go func() { // returns after second
		select {
		case <-signals:
			end()
		case <-second.Done():
		}
	}()
	detach := sig == syscall.SIGTERM && d.dir != nil
	if detach {
		d.awaitSpace(second)
		d.service.AwaitBeliefs(second)
	}
	d.service.Drain()
	d.shut()
	ctx, cancel := context.WithTimeout(second, d.maxTTL+shutdownWait)
	defer cancel()
	if !detach {
		return errors.Join(d.service.Close(ctx), d.client.Close())
	}
	if err := d.service.Detach(d.dir.Write); err != nil { // where nothing is left to take over, it is given back
		return errors.Join(err, d.service.Close(ctx), d.client.Close())
	}
	if left := d.client.Close(); left != nil { // the successor removes it, or the lease does
		d.log.Info("not removed yet", "cause", left)
	}
	return nil
}
