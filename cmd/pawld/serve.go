package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/handlers"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/statefile"
)

// A daemon is the running daemon's parts.
type daemon struct {
	options
	log     *slog.Logger
	dir     *statefile.Dir // nil without a state directory
	client  *pawl.Client
	service *service.Service
	api     *handlers.Server
	servers []*http.Server
	failed  chan error
	all     []listener // for clients, then for health

	reported atomic.Int64  // when a refused connection was last reported
	serves   chan struct{} // closed once the locks are taken over; the fields above do not change afterwards
}

// serve runs until a signal comes, or something fails.
func serve(ctx context.Context, o options, log *slog.Logger, signals <-chan os.Signal) (err error) {
	d := &daemon{options: o, log: log, failed: make(chan error, 8), serves: make(chan struct{})}
	rules, err := o.loadPolicy()
	if err != nil {
		return err
	}
	if o.stateDir != "" {
		if d.dir, err = statefile.Open(o.stateDir); err != nil {
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
	for i := range all {
		all[i].Listener = &accepting{Listener: all[i].Listener, log: d.log}
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
		if errors.Is(err, service.ErrInterrupted) {
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

// upkeepOf bounds renewals and releases to twice as many as an identity can have a use for, with one
// Renew for each session and one Release for each lock.
func upkeepOf(rules *policy.Policy) *peer.Limit {
	return peer.NewLimitOfEach("renewals and releases under way", func(identity string) int {
		return 2 * (rules.Sessions(identity) + rules.Locks(identity))
	})
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
	l = limit.ListenNewest(&accepting{Listener: l, log: d.log}, func(err error) { d.refused(at, err) })
	d.all = append(d.all, listener{Listener: l, limit: limit})
	server := &http.Server{
		Handler: handlers.WithVersion(d.healthHandler()), MaxHeaderBytes: 16 << 10,
		ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	d.servers = append(d.servers, server)
	d.log.Info("health", "address", l.Addr().String())
	go func() { _ = server.Serve(l) }() // returns after Shutdown
	return nil
}
