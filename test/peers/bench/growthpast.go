//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// turns are the acquisitions of one name by several clients, from one size to the next.
type turns struct {
	takers []taker
	done   int
	begin  int64 // the revision before the first
	before footprint
}

// moder is a session with all modes.
type moder interface {
	session
	readWrite(name string) readWriter
	permits(name string, limit int) taker
	candidate(name string) taker
}

// takerOf is what is acquired of a session.
func takerOf(s session, of, name string) (taker, error) {
	m, ok := s.(moder)
	switch {
	case of == "lock":
		return takerFunc(s.locker(name).acquire), nil
	case !ok:
		return nil, fmt.Errorf("no %s", of)
	case of == "shared":
		return takerFunc(m.readWrite(name).read), nil
	case of == "permits":
		return m.permits(name, 2), nil
	}
	return m.candidate(name), nil
}

// past lets three clients acquire and release one name until n acquisitions have been made, and measures
// the last of them: of three that contend, of three that come in turn, and of one alone.
func past(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	if w.turns.takers == nil {
		if w.turns.begin, err = w.revision(ctx); err != nil {
			return f, err
		}
		for range 3 {
			c, err := w.kit.dial(ctx, w.Dial...)
			if err != nil {
				return f, err
			}
			s, err := c.session(ctx, w.Scenario.TTL)
			if err != nil {
				return f, err
			}
			t, err := takerOf(s, w.Scenario.Of, w.Tag+"-name")
			if err != nil {
				return f, err
			}
			w.turns.takers = append(w.turns.takers, t)
		}
	}
	const window = 200
	last := min(window, n/5)
	if err := w.turns.fill(ctx, n-w.turns.done-3*last, w.Kit == ours); err != nil {
		return f, err
	}
	for _, way := range []struct {
		what string
		do   func() ([]time.Duration, error)
	}{
		{"in company", func() ([]time.Duration, error) { return w.turns.company(ctx, last) }},
		{"in turn", func() ([]time.Duration, error) { return w.turns.rotate(ctx, last, w.turns.takers) }},
		{"alone", func() ([]time.Duration, error) { return w.turns.rotate(ctx, last, w.turns.takers[:1]) }},
	} {
		if way.what == "in company" && w.Kit != ours {
			continue // each waits for etcd's tick, a tenth of a second
		}
		var median float64
		m, err := w.metered(func() (int, error) {
			took, err := way.do()
			median, _ = quantiles(took)
			return last, err
		})
		if err != nil {
			return f, err
		}
		f.note("a pair "+way.what+": ms", median*1e3)
		f.note("a pair "+way.what+": server CPU, µs", m.serverCPU()*1e6)
		f.note("a pair "+way.what+": requests", m.requests())
		f.note("a pair "+way.what+": bytes", m.bytesIn()+m.bytesOut())
	}
	names, err := w.names(ctx, w.turns.begin)
	f.noteAll("names of keys, of all", float64(names))
	return f, err
}

// fill makes n acquisitions, which nobody measures.
func (t *turns) fill(ctx context.Context, n int, contended bool) (err error) {
	if contended {
		_, err = t.company(ctx, n)
	} else {
		_, err = t.rotate(ctx, n, t.takers)
	}
	return err
}

// rotate makes n acquisitions, one after another, by each of the takers in turn, and returns how long each took
// with its release.
func (t *turns) rotate(ctx context.Context, n int, by []taker) (all []time.Duration, err error) {
	for i := range max(n, 0) {
		took, err := pair(ctx, by[i%len(by)])
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	t.done += len(all)
	return all, nil
}

// company makes n acquisitions by all takers at once.
func (t *turns) company(ctx context.Context, n int) (all []time.Duration, err error) {
	var mu sync.Mutex
	left := max(n, 0)
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		left--
		return left >= 0
	}
	err = each(len(t.takers), len(t.takers), func(i int) error {
		for next() {
			took, err := pair(ctx, t.takers[i])
			if err != nil {
				return err
			}
			mu.Lock()
			all = append(all, took)
			mu.Unlock()
		}
		return nil
	})
	t.done += len(all)
	return all, err
}

func pair(ctx context.Context, t taker) (time.Duration, error) {
	start := time.Now()
	h, err := t.acquire(ctx)
	if err == nil {
		err = h.release(ctx)
	}
	return time.Since(start), err
}

// server connects to the server with the bare stubs.
func (w *worker) server() error {
	if w.raw != nil {
		return nil
	}
	conn, err := connect(w.Addr)
	if err != nil {
		return err
	}
	w.conn, w.raw = conn, pb.NewKVClient(conn)
	return nil
}

func (w *worker) revision(ctx context.Context) (int64, error) {
	r, err := w.raw.Range(ctx, &pb.RangeRequest{Key: []byte("there?")})
	return r.GetHeader().GetRevision(), err
}

// names counts the different keys that were written after a revision, alive or not. A range of etcd walks
// all of those within it until a compaction.
func (w *worker) names(ctx context.Context, after int64) (int, error) {
	mark := []byte(w.Tag + "-names")
	put, err := w.raw.Put(ctx, &pb.PutRequest{Key: mark})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(w.conn).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return 0, err
	}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte{0}, RangeEnd: []byte{0}, StartRevision: after + 1}}})
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		for _, e := range r.Events {
			seen[string(e.Kv.Key)] = true
			if e.Kv.ModRevision == put.Header.Revision {
				_, err := w.raw.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: mark})
				return len(seen) - 1, err
			}
		}
	}
}

// life is the acquisitions of one client, of 64 locks, until n have been made: what it and its session
// have grown by since its beginning.
func life(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := w.server(); err != nil {
		return f, err
	}
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	if w.turns.takers == nil {
		for i := range 64 {
			w.turns.takers = append(w.turns.takers, takerFunc(w.sessions[0].locker(fmt.Sprintf("%s-%d", w.Tag, i)).acquire))
		}
		if w.turns.begin, err = w.revision(ctx); err != nil {
			return f, err
		}
		if _, err := w.turns.company(ctx, 300); err != nil {
			return f, err
		}
		if w.turns.before, err = measureFootprint(w.Addr); err != nil {
			return f, err
		}
	}
	m, err := w.metered(func() (int, error) {
		made := n - w.turns.done
		_, err := w.turns.company(ctx, made)
		return made, err
	})
	if err != nil {
		return f, err
	}
	now, err := measureFootprint(w.Addr)
	if err != nil {
		return f, err
	}
	keys, err := w.leaseKeys(ctx)
	f.note("requests of a pair", m.requests())
	f.note("client CPU of a pair, µs", m.cpu()*1e6)
	f.note("server CPU of a pair, µs", m.serverCPU()*1e6)
	f.note("heap of the client since the beginning, KiB", max(now.heap-w.turns.before.heap, 0)/1024)
	f.note("its goroutines", float64(now.goroutines))
	f.note("keys on its leases", float64(keys))
	f.noteAll("heap of the server, of all, KiB", max(now.serverHeap-w.turns.before.serverHeap, 1)/1024)
	if err != nil || n > 100_000 {
		return f, err // the history of more is not read
	}
	names, err := w.names(ctx, w.turns.begin)
	f.noteAll("names of keys, of all", float64(names))
	return f, err
}

// leaseKeys is how many keys are on leases.
func (w *worker) leaseKeys(ctx context.Context) (n int, err error) {
	leases := pb.NewLeaseClient(w.conn)
	all, err := leases.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return 0, err
	}
	for _, l := range all.Leases {
		r, err := leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: l.ID, Keys: true})
		if err != nil {
			return 0, err
		}
		n += len(r.Keys)
	}
	return n, nil
}

// servedLife is acquisitions through pawld by 1,000 clients, of a lock each, until n have been made.
func servedLife(ctx context.Context, w *worker, n int) (f figures, err error) {
	d, ok := w.client.(*daemon)
	if !ok {
		return f, fmt.Errorf("%s is no daemon", w.Kit)
	}
	if err := w.server(); err != nil {
		return f, err
	}
	if err := w.grow(ctx, 1000); err != nil {
		return f, err
	}
	at := w.turns.done
	m, err := w.metered(func() (int, error) {
		return n - at, each(64, n-at, func(i int) error {
			h, err := w.sessions[(at+i)%1000].locker(fmt.Sprintf("%s-%d", w.Tag, (at+i)%1000)).acquire(ctx)
			if err != nil {
				return err
			}
			return h.release(ctx)
		})
	})
	if err != nil {
		return f, err
	}
	w.turns.done = n
	memory, err := d.memory()
	f.note("pawld CPU of a pair, µs", m.daemonCPU()*1e6)
	f.note("server CPU of a pair, µs", m.serverCPU()*1e6)
	f.note("requests of a pair", m.requests())
	f.note("memory of pawld, MiB", memory/(1<<20))
	return f, err
}
