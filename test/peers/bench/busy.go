//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
)

// busyScenarios are handovers between two programs, one of which already waits for a short while,
// beside so many unrelated writes a second: of a lock, between two clients, and, under the same
// conditions, between two sessions of one client, and of what else is acquired.
func busyScenarios() (list []scenario) {
	for _, members := range []int{1, 3} {
		for _, writes := range []int{0, 200, 2_000} {
			for _, ahead := range []time.Duration{2 * time.Millisecond, shortly, 100 * time.Millisecond, time.Second} {
				if members == 1 && writes == 2_000 || ahead == shortly {
					list = append(list, scenario{Name: busyName(members, writes, ahead), Task: "busy", Sizes: []int{handovers(ahead)}, Members: members,
						Writes: writes, Ahead: ahead, kits: three})
				}
			}
		}
	}
	for _, v := range []scenario{{Name: "one-client", OneClient: true, kits: three}, {Name: aPermit, Of: aPermit}, {Name: aSet, Of: aSet}, {Name: anElection, Of: anElection}} {
		v.Name, v.Task, v.Sizes, v.Writes, v.Ahead = busyName(1, 2_000, shortly)+"-"+v.Name, "busy", []int{handovers(shortly)}, 2_000, shortly
		if v.kits == nil {
			v.kits = []string{ours, theirs}
		}
		list = append(list, v)
	}
	return list
}

// shortly is how long before the release a waiter comes whom etcd's tick delays most.
const shortly = 10 * time.Millisecond

// What is handed over, if not a lock.
const (
	aPermit    = "permit" // of a semaphore with one slot
	aSet       = "set"    // of eight names
	anElection = "election"
)

// handovers are so many that a turn takes a few seconds.
func handovers(ahead time.Duration) int {
	if ahead >= time.Second {
		return 5
	}
	return 25
}

func busyName(members, writes int, ahead time.Duration) string {
	return fmt.Sprintf("busy-%d-writes-%v-ahead-members-%d", writes, ahead, members)
}

func busyPoints() (all []point) {
	for _, s := range busyScenarios() {
		all = append(all, point{s.Name, s.Sizes[0]})
	}
	return all
}

// busyCurve is a waiter that came 10 ms before, on one member, for each number of writes.
func busyCurve() (all []point) {
	for _, writes := range []int{0, 200, 2_000} {
		all = append(all, point{busyName(1, writes, shortly), handovers(shortly)})
	}
	return all
}

// writers is how many write at a time.
const writers = 20

// busy measures n handovers. One session holds, another begins to wait, and Ahead later the first
// releases. The times are from the call of Release to the return of Acquire.
func busy(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.pair(ctx); err != nil {
		return f, err
	}
	conn, err := connect(w.Addr)
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithCancel(ctx)
	others, writing := errgroup.WithContext(ctx)
	if w.Scenario.Writes > 0 {
		raw := pb.NewKVClient(conn)
		for i := range writers {
			others.Go(func() error {
				return writes(writing, raw, fmt.Sprintf("%s-beside-%d", w.Tag, i), w.Scenario.Writes/writers)
			})
		}
	}
	var took []time.Duration
	f, err = w.metered(func() (int, error) {
		for i := range n {
			d, err := w.handover(ctx, fmt.Sprintf("%s/%d", w.Tag, i))
			if err != nil {
				return 0, err
			}
			took = append(took, d)
		}
		return n, nil
	})
	cancel()
	if werr := others.Wait(); err == nil {
		err = werr
	}
	f.P50, f.P99 = quantiles(took)
	f.P90 = quantile(took, 0.9)
	return f, err
}

// writes puts key so often a second, until ctx ends, and deletes it. The last put is awaited, as one
// that is given up may be applied after the deletion.
func writes(ctx context.Context, kv pb.KVClient, key string, aSecond int) error {
	whole := context.WithoutCancel(ctx)
	tick := time.NewTicker(time.Second / time.Duration(aSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_, err := kv.DeleteRange(whole, &pb.DeleteRangeRequest{Key: []byte(key)})
			return err
		case <-tick.C:
			if _, err := kv.Put(whole, &pb.PutRequest{Key: []byte(key), Value: []byte(key)}); err != nil {
				return err
			}
		}
	}
}

// pair makes two sessions, each in a client of its own unless the scenario says otherwise.
func (w *worker) pair(ctx context.Context) error {
	if w.Scenario.OneClient {
		return w.grow(ctx, 2)
	}
	if err := w.grow(ctx, 1); err != nil {
		return err
	}
	other, err := w.kit.dial(ctx, w.Dial...)
	if err != nil {
		return err
	}
	s, err := other.session(ctx, w.Scenario.TTL)
	w.sessions = append(w.sessions, s)
	return err
}

// contender is the i-th session's part in what the scenario hands over.
func (w *worker) contender(i int, name string) (taker, error) {
	if w.Scenario.Of == "" {
		return takerFunc(w.sessions[i].locker(name).acquire), nil
	}
	s, err := w.modeful(i)
	if err != nil {
		return nil, err
	}
	switch w.Scenario.Of {
	case aPermit:
		return s.permits(name, 1), nil
	case aSet:
		names := make([]string, 8)
		for j := range names {
			names[j] = nameAt(name, j)
		}
		return s.set(names), nil
	default:
		return s.candidate(name), nil
	}
}

func (w *worker) handover(ctx context.Context, name string) (took time.Duration, err error) {
	var both [2]taker
	for i := range both {
		if both[i], err = w.contender(i, name); err != nil {
			return 0, err
		}
	}
	first, err := both[0].acquire(ctx)
	if err != nil {
		return 0, err
	}
	type result struct {
		held held
		at   time.Time
		err  error
	}
	next := make(chan result, 1)
	go func() { // ends with the acquisition
		h, err := both[1].acquire(ctx)
		next <- result{h, time.Now(), err}
	}()
	time.Sleep(w.Scenario.Ahead)
	released := time.Now()
	if err := first.release(ctx); err != nil {
		return 0, err
	}
	got := <-next
	if got.err != nil {
		return 0, got.err
	}
	return got.at.Sub(released), got.held.release(ctx)
}
