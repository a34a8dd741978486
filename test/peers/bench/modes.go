//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// modeful is a session with more modes than a plain lock.
type modeful interface {
	session
	readWrite(name string) readWriter
	// permits is one of a limit that hold a name at once.
	permits(name string, limit int) taker
	// set is all of some names.
	set(names []string) taker
	// candidate campaigns in an election, and resigns.
	candidate(name string) taker
}

// readWriter is one worker's lock of readers and writers.
type readWriter interface {
	read(ctx context.Context) (held, error)
	write(ctx context.Context) (held, error)
}

type taker interface {
	acquire(ctx context.Context) (held, error)
}

type takerFunc func(ctx context.Context) (held, error)

func (f takerFunc) acquire(ctx context.Context) (held, error) { return f(ctx) }

// anyOf is limit plain locks, of which each acquisition picks one at random: the substitute
// without a semaphore. It waits for the one that it picked, even if another is free.
func anyOf(s session, name string, limit int) taker {
	locks := make([]locker, limit)
	for i := range locks {
		locks[i] = s.locker(fmt.Sprintf("%s/%d", name, i))
	}
	return takerFunc(func(ctx context.Context) (held, error) { return locks[rand.IntN(limit)].acquire(ctx) })
}

// inOrder is the locks of some names, acquired one after the other in the order of the names,
// which prevents circular waits.
func inOrder(s session, names []string) taker {
	locks := make([]locker, len(names))
	for i, name := range slices.Sorted(slices.Values(names)) {
		locks[i] = s.locker(name)
	}
	return takerFunc(func(ctx context.Context) (held, error) {
		var all heldInTurn
		for _, l := range locks {
			h, err := l.acquire(ctx)
			if err != nil {
				return nil, errors.Join(err, all.release(ctx))
			}
			all = append(all, h)
		}
		return all, nil
	})
}

type heldInTurn []held

func (all heldInTurn) release(ctx context.Context) (err error) {
	for _, h := range slices.Backward(all) {
		err = errors.Join(err, h.release(ctx))
	}
	return err
}

const (
	modeWorkers = 64
	setWorkers  = 8
	setPool     = 256 // names, of which each set is some
)

// modes are the scenarios of shared locks, semaphores and sets.
func modes(short bool) []scenario {
	const span = 800 * time.Millisecond
	list := []scenario{
		{Name: "readers-90", Task: "readers", Sizes: []int{90}, kits: []string{ours, theirs}},
		{Name: "readers-50", Task: "readers", Sizes: []int{50}, kits: []string{ours, theirs}},
		{Name: "permits-1", Task: "permits", Sizes: []int{1}, kits: []string{ours, plain, theirs}},
		{Name: "permits-8", Task: "permits", Sizes: []int{8}, kits: []string{ours, plain, theirs}},
		{Name: "sets-2", Task: "sets", Sizes: []int{2}, kits: []string{ours, plain, theirs}},
		{Name: "sets-8", Task: "sets", Sizes: []int{8}, kits: []string{ours, plain, theirs}},
		{Name: "sets-32", Task: "sets", Sizes: []int{32}, kits: []string{ours, plain, theirs}},
		{Name: "beside", Task: "beside", Sizes: []int{5, 5_000}, kits: []string{ours, theirs}},
	}
	for i := range list {
		list[i].Span = span
	}
	for i := range list[:4] {
		list[i].Hold = time.Millisecond
	}
	if last := &list[len(list)-1]; short {
		last.Sizes = last.Sizes[:1]
	}
	return list
}

func (w *worker) modeful(i int) (modeful, error) {
	s, ok := w.sessions[i].(modeful)
	if !ok {
		return nil, fmt.Errorf("%s has no modes", w.Kit)
	}
	return s, nil
}

// pass acquires, holds for a while, and releases.
func (w *worker) pass(ctx context.Context, acquire func(context.Context) (held, error)) error {
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	time.Sleep(w.Scenario.Hold)
	return h.release(ctx)
}

// readers is workers with a session each, which all read or write under one name. percent of their
// operations are reads.
func readers(ctx context.Context, w *worker, percent int) (f figures, err error) {
	if err := w.grow(ctx, modeWorkers); err != nil {
		return f, err
	}
	locks := make([]readWriter, modeWorkers)
	for i := range locks {
		s, err := w.modeful(i)
		if err != nil {
			return f, err
		}
		locks[i] = s.readWrite(w.Tag)
	}
	return w.repeat(ctx, modeWorkers, func(ctx context.Context, i int) error {
		if rand.IntN(100) < percent {
			return w.pass(ctx, locks[i].read)
		}
		return w.pass(ctx, locks[i].write)
	})
}

// permits is workers with a session each, of which limit hold one name at once.
func permits(ctx context.Context, w *worker, limit int) (f figures, err error) {
	if err := w.grow(ctx, modeWorkers); err != nil {
		return f, err
	}
	takers := make([]taker, modeWorkers)
	for i := range takers {
		s, err := w.modeful(i)
		if err != nil {
			return f, err
		}
		takers[i] = s.permits(w.Tag, limit)
	}
	return w.repeat(ctx, modeWorkers, func(ctx context.Context, i int) error {
		return w.pass(ctx, takers[i].acquire)
	})
}

// sets is workers with a session each, each of which acquires n names at a time, from a pool
// that is the same for all.
func sets(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, setWorkers); err != nil {
		return f, err
	}
	of := make([]modeful, setWorkers)
	for i := range of {
		if of[i], err = w.modeful(i); err != nil {
			return f, err
		}
	}
	return w.repeat(ctx, setWorkers, func(ctx context.Context, i int) error {
		names := make([]string, n)
		for j, k := range rand.Perm(setPool)[:n] {
			names[j] = fmt.Sprintf("%s-%d", w.Tag, k)
		}
		return w.pass(ctx, of[i].set(names).acquire)
	})
}

// beside is one reader that repeatedly acquires, beside n that hold the name as readers.
func beside(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.grow(ctx, 2); err != nil {
		return f, err
	}
	others, err := w.modeful(1)
	if err != nil {
		return f, err
	}
	have := len(w.held)
	w.held = append(w.held, make([]held, n-have)...)
	err = each(64, n-have, func(i int) (err error) {
		w.held[have+i], err = others.readWrite(w.Tag).read(ctx)
		return err
	})
	if err != nil {
		return f, err
	}
	s, err := w.modeful(0)
	if err != nil {
		return f, err
	}
	l := s.readWrite(w.Tag)
	return w.repeat(ctx, 1, func(ctx context.Context, _ int) error { return w.pass(ctx, l.read) })
}

var modeColumns = []column{{"a second", figures.throughput, 1}, {"p50, ms", figures.p50, 1e3}, {"p99, ms", figures.p99, 1e3},
	{"requests", figures.requests, 1}, {"Watch messages", figures.watches, 1},
	{"client CPU, µs", figures.cpu, 1e6}, {"server CPU, µs", figures.serverCPU, 1e6}}

func (r *results) modeSections() []section {
	return []section{
		{"Readers and writers", readersText, r.table("readers, %", []point{{"readers-90", 90}, {"readers-50", 50}}, modeColumns)},
		{"A reader among others", besideText, r.table("readers that hold", []point{{"beside", 5}, {"beside", 5_000}}, modeColumns)},
		{"Permits", permitsText, r.table("limit", []point{{"permits-1", 1}, {"permits-8", 8}}, modeColumns)},
		{"Several names at once", setsText, r.table("names", []point{{"sets-2", 2}, {"sets-8", 8}, {"sets-32", 32}}, modeColumns)},
	}
}

const (
	readersText = `64 workers, each with a session of its own, share one name and hold it for 1 ms each time. The first column is the percentage of holds
as readers; the others are as writers. clientv3 is ` + "`RWMutex`" + ` of etcd's ` + "`client/v3/experimental/recipes`" + `. Latency is from the call to the end of the release.

`
	besideText = `One worker acquires and releases as a reader, while the given number of other readers hold the name.

`
	permitsText = `64 workers, each with a session of its own. The given number of them can hold one name at once, for 1 ms each. etcd's own client has no semaphore. So for it,
and for "plain locks" of pawl, there are as many locks instead. A worker picks one at random and waits for it even if another one is
free. A semaphore costs more, and serves its waiters first come, first served: each takes a slot once it is first in the queue.

`
	setsText = `8 workers, each with a session of its own. Each acquires the given number of names at once, at random from the same 256, and releases them. clientv3 and
"plain locks" of pawl acquire them one after another in sorted order, because they have no sets. Requests are those for all names of one
acquisition and its release.

`
)
