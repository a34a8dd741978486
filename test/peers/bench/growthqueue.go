//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/lock"
)

// queued are the waiters of one lock.
type queued struct {
	w     *worker
	name  string
	m     *lock.Mutex
	won   chan wonBy
	tasks sync.WaitGroup
	quit  []context.CancelFunc // of each waiter
	left  []chan struct{}      // closed when the waiter's call has returned
}

type wonBy struct {
	h   *lock.Held
	err error
}

// queueOf makes n waiters of one client wait for a lock that another holds, and measures what each thing
// that concerns the queue costs: an enqueue, a waiter that gives up, what shows the queue, a break, a handover.
func queueOf(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	ctx, cancel := context.WithCancel(ctx)
	q := &queued{w: w, name: fmt.Sprintf("%s-%d", w.Tag, n), won: make(chan wonBy, n+1)}
	defer func() { cancel(); q.tasks.Wait() }()
	client := w.client.(pawlClient).c
	holder, err := client.NewSession(ctx, lease300)
	if err != nil {
		return f, err
	}
	first, err := lock.New(holder, q.name, lock.Options{}).Acquire(ctx)
	if err != nil {
		return f, err
	}
	waiting, err := client.NewSession(ctx, lease300)
	if err != nil {
		return f, err
	}
	q.m = lock.New(waiting, q.name, lock.Options{})
	last := min(50, n/2)
	if err := q.enqueue(ctx, n-last); err != nil {
		return f, err
	}
	if err := q.measured(&f, "an enqueue at the end", last, func() error { return q.enqueue(ctx, last) }); err != nil {
		return f, err
	}
	middle := min(20, n/4)
	if err := q.measured(&f, "a waiter in the middle gives up", middle, func() error { return q.giveUp(ctx, n/2, middle) }); err != nil {
		return f, err
	}
	if err := q.shown(ctx, &f, client); err != nil {
		return f, err
	}
	key := inspect.Position{Key: first.Key(), Token: first.Token(), Lease: holder.ID()}
	if err := q.measured(&f, "a break", 1, func() error { return inspect.Evict(ctx, client, key, "growth") }); err != nil {
		return f, err
	}
	steps := min(20, n/4)
	return f, q.measured(&f, "a handover", steps, func() error { return q.handOver(ctx, steps) })
}

// measured notes what ops operations cost.
func (q *queued) measured(f *figures, what string, ops int, do func() error) error {
	m, err := q.w.metered(func() (int, error) { return ops, do() })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	f.note(what+": ms", m.Wall/float64(ops)*1e3)
	f.note(what+": server CPU, µs", m.serverCPU()*1e6)
	f.note(what+": client CPU, µs", m.cpu()*1e6)
	f.note(what+": requests", m.requests())
	f.note(what+": bytes", m.bytesIn()+m.bytesOut())
	return nil
}

// enqueue adds n waiters, and returns when their keys are in the queue.
func (q *queued) enqueue(ctx context.Context, n int) error {
	prefix := []byte(q.name + "/")
	for range n {
		ctx, quit := context.WithCancel(ctx)
		left := make(chan struct{})
		q.quit, q.left = append(q.quit, quit), append(q.left, left)
		q.tasks.Go(func() { // ends with ctx
			h, err := q.m.Acquire(ctx)
			close(left)
			if ctx.Err() == nil || h != nil {
				q.won <- wonBy{h, err}
			}
		})
	}
	for want := int64(len(q.quit) + 1); ; {
		r, err := q.w.raw.Range(ctx, &pb.RangeRequest{Key: prefix, RangeEnd: []byte(q.name + "0"), CountOnly: true})
		if err != nil || r.Count >= want {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// giveUp ends n waiters, one after another, from the at-th on.
func (q *queued) giveUp(ctx context.Context, at, n int) error {
	for i := at; i < at+n; i++ {
		q.quit[i]()
		select {
		case <-q.left[i]:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// shown measures what people and programs see the queue with.
func (q *queued) shown(ctx context.Context, f *figures, client *pawl.Client) error {
	for _, way := range []struct {
		what string
		do   func() error
	}{
		{"Queue", func() error { _, err := q.m.Queue(ctx); return err }},
		{"pawl ls", func() error { _, err := inspect.Read(ctx, client, inspect.Scope{First: 1}); return err }},
		{"pawl show", func() error {
			_, err := inspect.Read(ctx, client, inspect.Scope{Name: q.name, First: 100, Held: true})
			return err
		}},
	} {
		if err := q.all(f, way.what, way.do); err != nil {
			return err
		}
	}
	var follower *inspect.Follower
	err := q.all(f, "pawl top and ui begin", func() (err error) {
		follower, err = inspect.Follow(ctx, client, inspect.Scope{})
		return err
	})
	if err != nil {
		return err
	}
	defer follower.Close()
	start := time.Now()
	for range 3 {
		follower.Snapshot()
	}
	f.noteAll("pawl top and ui draw, of all: ms", time.Since(start).Seconds()/3*1e3)
	return nil
}

// all notes what do costs, which is about the whole queue.
func (q *queued) all(f *figures, what string, do func() error) error {
	m, err := q.w.metered(func() (int, error) { return 1, do() })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	f.noteAll(what+", of all: ms", m.Wall*1e3)
	f.noteAll(what+", of all: server CPU, µs", m.ServerCPU*1e6)
	f.noteAll(what+", of all: requests", m.requests())
	f.noteAll(what+", of all: bytes", m.BytesIn+m.BytesOut)
	return nil
}

// handOver takes the lock and passes it on, n times.
func (q *queued) handOver(ctx context.Context, n int) error {
	for range n {
		select {
		case by := <-q.won:
			if by.err != nil {
				return by.err
			}
			if err := by.h.Release(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
