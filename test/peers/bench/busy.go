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
// beside so many unrelated writes a second.
func busyScenarios() (list []scenario) {
	for _, members := range []int{1, 3} {
		for _, writes := range []int{0, 200, 2_000} {
			for _, ahead := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
				if members == 1 && writes == 2_000 || ahead == 10*time.Millisecond {
					list = append(list, scenario{Name: busyName(members, writes, ahead), Task: "busy", Sizes: []int{handovers(ahead)}, Members: members,
						Writes: writes, Ahead: ahead, kits: three})
				}
			}
		}
	}
	return list
}

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
		all = append(all, point{busyName(1, writes, 10*time.Millisecond), handovers(10 * time.Millisecond)})
	}
	return all
}

// writers is how many write at a time.
const writers = 20

// busy measures n handovers. One session holds, another begins to wait, and Ahead later the first
// releases. The times are from the call of Release to the return of Acquire.
func busy(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 2); err != nil {
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

func (w *worker) handover(ctx context.Context, name string) (took time.Duration, err error) {
	first, err := w.sessions[0].locker(name).acquire(ctx)
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
		h, err := w.sessions[1].locker(name).acquire(ctx)
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
