//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lock"
)

// shardsOf is n shards of n/100 workers: a plan when one worker has left, one that moves nothing, a
// worker's count of the queues, and a list of them.
func shardsOf(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	workers := max(n/100, 2)
	all := make([]shards.Candidate, workers)
	owners := make([]int, n)
	for i := range all {
		all[i] = shards.Candidate{Lease: int64(i + 1), Weight: 1}
	}
	for i := range owners {
		owners[i] = i % workers
	}
	start := time.Now()
	owners = shards.Plan(w.Tag, all, owners, nil, nil)
	f.noteAll("a plan that moves nothing, of all: ms", time.Since(start).Seconds()*1e3)
	for i, m := range owners {
		if m == workers-1 {
			owners[i] = shards.Nobody
		}
	}
	start = time.Now()
	shards.Plan(w.Tag, all[:workers-1], owners, nil, nil)
	f.noteAll("a plan without one worker, of all: ms", time.Since(start).Seconds()*1e3)

	prefix := fmt.Sprintf("%s-%d/", w.Tag, n)
	lease, err := pb.NewLeaseClient(w.conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 300})
	if err != nil {
		return f, err
	}
	const each = 100
	for at := 0; at < n; at += each {
		t := &pb.TxnRequest{}
		for i := at; i < min(at+each, n); i++ {
			t.Success = append(t.Success, txn.Put(fmt.Sprintf("%s%06d/%x-1", prefix, i, lease.ID), nil, lease.ID))
		}
		if _, err := w.raw.Txn(ctx, t); err != nil {
			return f, err
		}
	}
	const times = 20
	m, err := w.metered(func() (int, error) {
		for range times {
			if _, err := w.raw.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{txn.Between([]byte(prefix), txn.PrefixEnd(prefix), 1)}}); err != nil {
				return 0, err
			}
		}
		return times, nil
	})
	if err != nil {
		return f, err
	}
	f.noteAll("a worker's count, of all: server CPU, µs", m.serverCPU()*1e6)
	f.noteAll("the counts of all workers in a TTL, for each shard: server CPU, µs", m.serverCPU()*1e6*float64(workers)/float64(n))
	m, err = w.metered(func() (int, error) {
		from := []byte(prefix)
		for {
			r, err := w.raw.Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: txn.PrefixEnd(prefix), Limit: 10_000, KeysOnly: true})
			if err != nil || !r.More {
				return 1, err
			}
			from = append(r.Kvs[len(r.Kvs)-1].Key, 0)
		}
	})
	f.noteAll("a list, of all: bytes", m.BytesIn+m.BytesOut)
	f.noteAll("a list, of all: server CPU, µs", m.ServerCPU*1e6)
	return f, err
}

// schedulesAtRest is n names of one client at rest.
func schedulesAtRest(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	defer func() { // the records stay otherwise
		root := keys.OnceRoot("")
		_, derr := w.raw.DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte(root), RangeEnd: txn.PrefixEnd(root)})
		err = errors.Join(err, derr)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	started := make(chan struct{}, n)
	ended := make(chan error, n)
	for i := range n {
		go func() { // ends with ctx
			s := &resting{Schedule: lock.Interval(24*time.Hour, time.Hour), asked: started}
			ended <- lock.New(w.client.(pawlClient).c, fmt.Sprintf("%s-%d-%d", w.Tag, n, i), lock.Options{}).
				Every(ctx, s, func(context.Context, *lock.Held, time.Time) error { return nil }, lock.EveryOptions{})
		}()
	}
	for range n {
		select {
		case <-started:
		case err := <-ended:
			return f, err
		}
	}
	m, err := w.metered(func() (int, error) { time.Sleep(w.Scenario.Span); return n, nil })
	if err != nil {
		return f, err
	}
	if err := w.occupied(&f, before, n); err != nil {
		return f, err
	}
	f.note("requests of each in ten seconds", m.requests())
	f.note("client CPU of each in ten seconds, µs", m.cpu()*1e6)
	f.note("heap of the client for each, B", f.Heap)
	f.note("goroutines for each", f.Goroutines)
	return f, nil
}

// resting says when its schedule is asked for the second time, after the record was written.
type resting struct {
	lock.Schedule
	n     atomic.Int64
	asked chan<- struct{}
}

func (r *resting) Next(t time.Time) time.Time {
	if r.n.Add(1) == 2 {
		r.asked <- struct{}{}
	}
	return r.Schedule.Next(t)
}

// schedulesMissed runs all of n times that nobody ran.
func schedulesMissed(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	name := fmt.Sprintf("%s-%d", w.Tag, n)
	now := time.Now().Truncate(time.Second)
	run := keys.Run{At: now.Add(-time.Duration(n) * time.Second)}
	if _, err := w.raw.Put(ctx, &pb.PutRequest{Key: []byte(keys.OnceKey("", name)), Value: run.Value()}); err != nil {
		return f, err
	}
	s := &resting{Schedule: lock.Interval(time.Second, 0), asked: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := n
	m, err := w.metered(func() (int, error) {
		err := lock.New(w.client.(pawlClient).c, name, lock.Options{}).Every(ctx, s, func(context.Context, *lock.Held, time.Time) error {
			if left--; left == 0 {
				cancel()
			}
			return nil
		}, lock.EveryOptions{CatchUp: lock.All, Most: n})
		if left > 0 {
			return 0, err
		}
		return n, nil
	})
	if err != nil {
		return f, err
	}
	f.note("calls of Next", float64(s.n.Load())/float64(n))
	f.note("requests", m.requests())
	f.note("client CPU, µs", m.cpu()*1e6)
	f.note("server CPU, µs", m.serverCPU()*1e6)
	_, err = w.raw.DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte(keys.OnceKey("", name))})
	return f, err
}
