package matrix

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// inCell is how many shards a cell has.
const inCell = 4

// team is the workers of a cell's shards.
type team struct {
	w *fixture

	mu    sync.Mutex
	works map[*person]map[int]bool // who works on what
	lost  []error
	known map[string]bool // the keys of holds that the history has
}

// shardsMove has a and b share shards out. While the fault strikes b leaves, and it comes again.
func shardsMove(t *testing.T, w *fixture) func(func()) {
	m := &team{w: w, works: map[*person]map[int]bool{w.a: {}, w.b: {}}, known: map[string]bool{}}
	first, second := m.join(t, w.a), m.join(t, w.b)
	m.shared(t, 2, 2)
	return func(strike func()) {
		strike()
		second()
		m.shared(t, 4, 0)
		second = m.join(t, w.b)
		<-w.healed
		m.shared(t, 2, 2)
		second()
		first()
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, err := range m.lost {
			w.kept(t, err)
		}
	}
}

// join has p take part until leave is called, which waits for its end.
func (m *team) join(t *testing.T, p *person) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { // ends with ctx
		opts := shard.Options{Session: lease.Options{TTL: m.w.fault.ttl()}, Notify: m.notice}
		err := shard.Run(ctx, p.client, m.w.name, inCell, opts, func(ctx context.Context, h *shard.Held) error { return m.work(ctx, p, h) })
		assert.ErrorIs(t, err, context.Canceled)
	})
	leave = func() { cancel(); running.Wait() }
	t.Cleanup(leave)
	return leave
}

func (m *team) notice(ev shard.Event) {
	if ev.Kind == shard.Lost {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lost = append(m.lost, ev.Err)
	}
}

// work calls Err until its context ends. Its first look is the acquisition, in the history.
func (m *team) work(ctx context.Context, p *person, h *shard.Held) error {
	m.mu.Lock()
	kind := history.Acquire
	if m.known[h.Key()] { // nobody waited any more, and work is called again
		kind = history.Look
	}
	m.known[h.Key()] = true
	m.works[p][h.Shard()] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.works[p], h.Shard())
	}()
	for {
		o := history.Op{Client: p.number, Kind: kind, Name: h.Name(), Token: int64(h.Token()), Call: m.w.rec.Now(), Outcome: history.OK}
		err := h.Err()
		if o.Return = m.w.rec.Now(); err != nil {
			o.Outcome, o.Err = history.Refused, err.Error()
		}
		if err == nil || kind == history.Look {
			m.w.rec.Add(o)
		}
		if kind = history.Look; err != nil || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// shared waits until a and b work on so many shards, on all of them together.
func (m *team) shared(t *testing.T, a, b int) {
	t.Helper()
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		ofA, ofB := m.works[m.w.a], m.works[m.w.b]
		for i := range inCell {
			if ofA[i] == ofB[i] {
				return false
			}
		}
		return len(ofA) == a && len(ofB) == b
	}, testscale.Hang, 10*time.Millisecond, "the shards are never shared out")
}

// excused is ops, without what a worker of shards did not learn yet when an operator had struck:
// then another may hold the shard already.
func (w *fixture) excused(ops []history.Op, struck time.Duration) (rest []history.Op) {
	if len(w.fault.strikes) == 0 {
		return ops
	}
	var ofShards []history.Op
	for _, o := range ops {
		if strings.HasPrefix(o.Name, keys.ShardsRoot("")) {
			ofShards = append(ofShards, o)
		} else {
			rest = append(rest, o)
		}
	}
	return append(rest, w.seen.excused(ofShards, struck)...)
}
