//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// daemons are the scenarios of locks that are acquired through a service.
func daemons(short bool) []scenario {
	list := []scenario{
		{Name: "served-1", Task: "uncontended", Sizes: []int{1}, Span: 800 * time.Millisecond, kits: []string{ours, served, gatewayed}},
		{Name: "served-64", Task: "uncontended", Sizes: []int{64}, Span: 800 * time.Millisecond, kits: []string{ours, served, gatewayed}},
	}
	if !short {
		list = append(list, scenario{Name: "served-idle", Task: "served-idle", Sizes: []int{10_000}, TTL: 30 * time.Second,
			Span: 10 * time.Second, kits: []string{served}, rounds: 1})
	}
	return list
}

// needsDaemon reports whether one of them uses pawld.
func needsDaemon(all []scenario) bool {
	return slices.ContainsFunc(all, func(s scenario) bool { return slices.Contains(s.kits, served) })
}

// servedIdle is what n sessions cost pawld that each hold a lock and only renew, three times in
// a TTL. An operation is one session kept for one TTL.
func servedIdle(ctx context.Context, w *worker, n int) (f figures, err error) {
	d, ok := w.client.(*daemon)
	if !ok {
		return f, fmt.Errorf("%s is no daemon", w.Kit)
	}
	have := len(w.sessions) // of an earlier size, which are left to expire
	if err := w.grow(ctx, have+n); err != nil {
		return f, err
	}
	mine := w.sessions[have:]
	if _, err := mine[0].locker(fmt.Sprintf("%s-first-%d", w.Tag, n)).acquire(ctx); err != nil {
		return f, err
	}
	before, err := d.memory()
	if err != nil {
		return f, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	keepers := &keepers{stop: stop}
	defer keepers.end()
	err = each(64, 64, func(i int) error {
		var part []daemonSession
		for j := 1 + i; j < n; j += 64 {
			s := mine[j].(daemonSession)
			if _, err := s.locker(fmt.Sprintf("%s-%d-%d", w.Tag, n, j)).acquire(ctx); err != nil {
				return err
			}
			part = append(part, s)
		}
		if len(part) > 0 {
			keepers.keep(ctx, part, w.Scenario.TTL/3)
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	time.Sleep(w.Scenario.TTL / 3) // the steady state
	f, err = w.metered(func() (int, error) {
		select {
		case <-time.After(w.Scenario.Span):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		return int(float64(n) * w.Scenario.Span.Seconds() / w.Scenario.TTL.Seconds()), nil
	})
	if err != nil {
		return f, err
	}
	now, err := d.memory()
	f.Heap = (now - before) / float64(n)
	return f, err
}

// keepers renew sessions until they end, or until one fails.
type keepers struct {
	stop context.CancelCauseFunc
	all  sync.WaitGroup
}

// keep renews all of mine in each period, spread over it.
func (k *keepers) keep(ctx context.Context, mine []daemonSession, period time.Duration) {
	k.all.Go(func() { // ends with ctx
		tick := time.NewTicker(period / time.Duration(len(mine)))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := mine[i%len(mine)].renew(ctx); err != nil {
				k.stop(err)
				return
			}
		}
	})
}

func (k *keepers) end() {
	k.stop(nil)
	k.all.Wait()
}

func (r *results) daemonSections() []section {
	return []section{
		{"Through a service", servedText, r.table("workers", []point{{"served-1", 1}, {"served-64", 64}}, servedColumns)},
		{"Sessions at rest in pawld", idleText, r.table("sessions", []point{{"served-idle", 10_000}}, idleColumns)},
	}
}

var (
	servedColumns = []column{{"a second", figures.throughput, 1}, {"p50, ms", figures.p50, 1e3}, {"p99, ms", figures.p99, 1e3},
		{"client CPU, µs", figures.cpu, 1e6}, {"pawld CPU, µs", figures.daemonCPU, 1e6}, {"etcd CPU, µs", figures.serverCPU, 1e6}}
	idleColumns = []column{{"pawld CPU, µs", figures.daemonCPU, 1e6}, {"pawld memory per session, KiB", figures.heap, 1. / 1024},
		{"client CPU, µs", figures.cpu, 1e6}, {"etcd CPU, µs", figures.serverCPU, 1e6}}
)

const (
	servedText = `Each worker acquires and releases a lock of its own; all workers share one session. "pawl" is the library in the worker's process.
"pawld" is the daemon, over JSON on its Unix socket. "v3lock, JSON" is etcd's own lock service through its gateway, which
makes no comparisons and returns no deadline. Client, daemon and etcd share the machine.

`
	idleText = `Each session holds a lock through pawld and only renews, three times in a TTL of 30 s, over JSON on the Unix
socket. CPU is for one session and one TTL; memory is the growth of the process. Measured in the first round only.

`
)
