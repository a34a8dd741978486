//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

var lease300 = lease.Options{TTL: longTTL}

// heldByOne is one session with n locks: what keeps them, passes them on, and ends them.
func heldByOne(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	client := w.client.(pawlClient).c
	ttl := lease.Options{TTL: w.Scenario.TTL}
	s, err := client.NewSession(ctx, ttl)
	if err != nil {
		return f, err
	}
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	var all []*lock.Held
	m, err := w.metered(func() (int, error) {
		all, err = manyOf(ctx, s, fmt.Sprintf("%s-%d", w.Tag, n), n)
		return n, err
	})
	if err != nil {
		return f, err
	}
	f.note("acquired: server CPU, µs", m.serverCPU()*1e6)
	f.note("acquired: client CPU, µs", m.cpu()*1e6)
	f.note("acquired: requests", m.requests())
	now, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	f.note("heap of the client for each, B", (now.heap-before.heap)/float64(n))
	f.note("heap of the server for each, B", (now.serverHeap-before.serverHeap)/float64(n))
	f.note("goroutines for each", float64(now.goroutines-before.goroutines)/float64(n))
	if m, err = w.metered(func() (int, error) { time.Sleep(ttl.TTL); return n, nil }); err != nil {
		return f, err
	}
	f.noteAll("kept for a TTL, of all: requests", m.requests()*float64(n))
	f.noteAll("kept for a TTL, of all: bytes", m.BytesIn+m.BytesOut)
	f.noteAll("kept for a TTL, of all: server CPU, µs", m.ServerCPU*1e6)
	f.noteAll("kept for a TTL, of all: client CPU, µs", m.CPU*1e6)

	start := time.Now()
	h := s.Detach()
	f.noteAll("Detach, of all: ms", time.Since(start).Seconds()*1e3)
	text, _ := h.MarshalText() // never fails
	f.note("bytes of the Handle", float64(len(text)))
	next, err := w.kit.dial(ctx, w.Dial...)
	if err != nil {
		return f, err
	}
	if m, err = w.metered(func() (int, error) {
		if s, err = next.(pawlClient).c.NewSession(ctx, lease.Options{Resume: h}); err != nil {
			return n, err
		}
		return n, each(64, n, func(i int) (err error) {
			all[i], err = lock.New(s, all[i].Name(), lock.Options{}).Resume(ctx, all[i].Key(), all[i].Token())
			return err
		})
	}); err != nil {
		return f, err
	}
	f.note("taken over: ms", m.Wall/float64(n)*1e3)
	f.note("taken over: server CPU, µs", m.serverCPU()*1e6)
	f.note("taken over: client CPU, µs", m.cpu()*1e6)
	f.note("taken over: requests", m.requests())

	if err := w.lost(ctx, &f, s, all); err != nil {
		return f, err
	}
	if s, err = next.(pawlClient).c.NewSession(ctx, ttl); err != nil {
		return f, err
	}
	if _, err = manyOf(ctx, s, fmt.Sprintf("%s-%d", w.Tag, n), n); err != nil {
		return f, err
	}
	if m, err = w.metered(func() (int, error) { return n, s.Close(ctx) }); err != nil {
		return f, err
	}
	f.noteAll("Close, of all: ms", m.Wall*1e3)
	f.note("Close, of all: requests", m.requests()*float64(n))
	f.noteAll("Close, of all: server CPU, µs", m.ServerCPU*1e6)
	return f, nil
}

// manyOf acquires n locks.
func manyOf(ctx context.Context, s *pawl.Session, prefix string, n int) ([]*lock.Held, error) {
	all := make([]*lock.Held, n)
	return all, each(64, n, func(i int) (err error) {
		all[i], err = lock.New(s, fmt.Sprintf("%s-%d", prefix, i), lock.Options{}).Acquire(ctx)
		return err
	})
}

// lost has a session's lease revoked, and waits until each lock has ended.
func (w *worker) lost(ctx context.Context, f *figures, s *pawl.Session, all []*lock.Held) error {
	m, err := w.metered(func() (int, error) {
		if _, err := pb.NewLeaseClient(w.conn).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: s.ID()}); err != nil {
			return 0, err
		}
		for _, h := range all {
			select {
			case <-h.Done():
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return len(all), nil
	})
	if err != nil {
		return err
	}
	f.noteAll("lost, of all: ms", m.Wall*1e3)
	f.note("lost: client CPU, µs", m.cpu()*1e6)
	f.note("lost: requests", m.requests())
	return nil
}
