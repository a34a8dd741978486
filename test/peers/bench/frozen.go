//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// These are for frozenMember, in which a client acquires locks at a fixed rate, whether earlier
// ones were acquired or not, and in the middle a member stops for a while.
const (
	arrivalsEach = 2500 * time.Microsecond
	frozenAfter  = time.Second
	frozenFor    = 3 * time.Second
	late         = 500 * time.Millisecond
)

// frozenMember acquires 400 uncontended locks a second, at most n at a time, while a follower
// is stopped as by SIGSTOP. Share is that of acquisitions that took longer than 500 ms from
// when they were due.
func frozenMember(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	victim, err := w.follower(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, syscall.Kill(victim.Pid, syscall.SIGCONT)) }()
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		took  []time.Duration
		first error
	)
	slots := make(chan struct{}, n)
	tick := time.NewTicker(arrivalsEach)
	defer tick.Stop()
	begin := time.Now()
	frozen := false
	for due := begin; due.Before(begin.Add(w.Scenario.Span)); due = due.Add(arrivalsEach) {
		for time.Now().Before(due) {
			<-tick.C
		}
		since := due.Sub(begin)
		switch {
		case !frozen && since >= frozenAfter && since < frozenAfter+frozenFor:
			frozen, err = true, syscall.Kill(victim.Pid, syscall.SIGSTOP)
		case frozen && since >= frozenAfter+frozenFor:
			frozen, err = false, syscall.Kill(victim.Pid, syscall.SIGCONT)
		}
		if err != nil {
			return f, err
		}
		slots <- struct{}{}
		name := fmt.Sprintf("%s-%d", w.Tag, since)
		all.Go(func() {
			defer func() { <-slots }()
			h, err := w.sessions[0].locker(name).acquire(ctx)
			d := time.Since(due)
			if err == nil {
				err = h.release(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			took, first = append(took, d), errors.Join(first, err)
		})
	}
	all.Wait()
	if first != nil {
		return f, first
	}
	f = timesOf(took)
	for _, d := range took {
		if d > late {
			f.Share += 1 / float64(len(took))
		}
	}
	return f, nil
}

// follower is a member that is neither the leader nor the first one.
func (w *worker) follower(ctx context.Context) (member, error) {
	for _, m := range w.Members[1:] {
		conn, err := connect(m.Addr)
		if err != nil {
			return m, err
		}
		s, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		_ = conn.Close()
		if err != nil || s.Leader != s.Header.MemberId {
			return m, err
		}
	}
	return member{}, errors.New("every member leads")
}

const firstLockName = "first-lock"

// firstLock is n clients, one after the other, each of which connects, grants a session and acquires a
// lock while a follower is stopped as by SIGSTOP. Their first addresses take turns.
func firstLock(ctx context.Context, w *worker, n int) (f figures, err error) {
	victim, err := w.follower(ctx)
	if err != nil {
		return f, err
	}
	if err := syscall.Kill(victim.Pid, syscall.SIGSTOP); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, syscall.Kill(victim.Pid, syscall.SIGCONT)) }()
	var took []time.Duration
	for i := range n {
		at := i % len(w.Dial)
		addrs := slices.Concat(w.Dial[at:], w.Dial[:at])
		began := time.Now()
		c, err := w.kit.dial(ctx, addrs...)
		if err != nil {
			return f, err
		}
		s, err := c.session(ctx, w.Scenario.TTL)
		if err != nil {
			return f, err
		}
		h, err := s.locker(nameAt(w.Tag, i)).acquire(ctx)
		if err != nil {
			return f, err
		}
		took = append(took, time.Since(began))
		if err := h.release(ctx); err != nil {
			return f, err
		}
	}
	return timesOf(took), nil
}
