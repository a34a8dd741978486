package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// teamName is the name whose shards a scenario's workers share out.
const teamName = "team"

// team is the workers of shards, beside the clients of locks.
type team struct {
	w       *scenario
	members []*member
	over    chan struct{} // closed when all are to leave for good
	all     sync.WaitGroup

	mu    sync.Mutex
	works []map[*member]bool // by shard, who works on it
}

// member is one worker. It joins, works on what it gets, leaves or dies, and comes again.
type member struct {
	*team
	number int
	client *pawl.Client

	mu  sync.Mutex
	r   *rand.Rand      // of the works, which run side by side
	had map[string]bool // the keys of the holds that it has had: work is called again when nobody waits any more
}

// newTeam starts the workers of the plan.
func newTeam(w *scenario) *team {
	t := &team{w: w, over: make(chan struct{}), works: make([]map[*member]bool, w.plan.Shards)}
	for i := range t.works {
		t.works[i] = map[*member]bool{}
	}
	for i := range w.plan.Workers {
		m := &member{team: t, number: w.plan.Clients + i, had: map[string]bool{}, r: rand.New(rand.NewPCG(w.plan.Seed, uint64(i)+1<<32))}
		t.members = append(t.members, m)
		t.all.Go(m.run) // ends some time after over
	}
	return t
}

// settle waits until the faults that have ended are made good, checks that the shards are shared
// out evenly, and makes all workers leave.
func (t *team) settle() {
	time.Sleep(4*t.w.plan.TTL + 4*time.Minute) // what failed may be tried again a minute later
	t.mu.Lock()
	load := make([]int, len(t.members))
	for i, works := range t.works {
		if len(works) != 1 {
			t.w.fail("%d work on shard %d, long after the faults; in etcd: %q", len(works), i, t.w.server.left())
		}
		for m := range works {
			load[slices.Index(t.members, m)]++
		}
	}
	t.mu.Unlock()
	if len(load) > 0 && slices.Max(load)-slices.Min(load) > 1 {
		t.w.fail("loads are %v, long after the faults", load)
	}
	close(t.over)
	t.all.Wait()
}

func (m *member) between(from, to time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return between(m.r, from, to)
}

// run joins again and again, and for the last time when the faults have ended.
func (m *member) run() {
	for {
		m.join()
		select {
		case <-m.over:
			_ = m.close()
			return
		case <-time.After(m.between(0, m.w.plan.TTL)):
		}
	}
}

func (m *member) close() (err error) {
	if m.client != nil {
		err, m.client = m.client.Close(), nil
	}
	return err
}

// join is one call of Run.
func (m *member) join() {
	if m.client == nil {
		ctx, cancel := context.WithTimeout(context.Background(), m.w.plan.TTL)
		m.client, _ = pawl.Dial(ctx, m.w.config(m.number))
		if cancel(); m.client == nil {
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, stay, dies := m.client, m.between(0, 8*m.w.plan.TTL), m.between(0, 3) == 0
	ended := make(chan struct{})
	var left time.Duration // when it was told to leave
	var leaving sync.WaitGroup
	leaving.Go(func() { // ends with over, or with Run
		select {
		case <-ended:
			return
		case <-m.over:
		case <-m.w.ended: // and then it stays
			select {
			case <-m.over:
			case <-ended:
			}
		case <-time.After(stay):
			if dies {
				_ = client.Close()
			}
		}
		left = m.w.rec.Now()
		cancel()
	})
	err := shard.Run(ctx, client, teamName, m.w.plan.Shards, shard.Options{Session: lease.Options{TTL: m.w.plan.TTL}}, m.work)
	close(ended)
	leaving.Wait()
	if took := m.w.rec.Now() - left; ctx.Err() != nil && took > 2*m.w.plan.TTL+30*time.Second {
		m.w.fail("worker %d took %v to leave", m.number, took)
	}
	if err == nil {
		m.w.fail("worker %d ended without an error", m.number)
	}
	if dies || errors.Is(err, pawl.ErrClusterChanged) || errors.Is(err, lease.ErrClosed) {
		_ = m.close()
	}
}

// work works on a shard until its context ends. It calls Err, and writes.
func (m *member) work(ctx context.Context, h *shard.Held) error {
	i := h.Shard()
	m.team.mu.Lock()
	if m.works[i][m] {
		m.w.fail("worker %d has two works for shard %d", m.number, i)
	}
	m.works[i][m] = true
	m.team.mu.Unlock()
	defer func() {
		m.team.mu.Lock()
		defer m.team.mu.Unlock()
		delete(m.works[i], m)
	}()
	for kind := m.first(h); m.look(h, kind); kind = history.Look {
		select {
		case <-ctx.Done():
			m.look(h, history.Look) // it may save, if this is a move
			time.Sleep(m.between(0, m.w.plan.TTL/4))
			m.write(h)
			m.look(h, history.Look)
			return nil
		case <-time.After(m.between(0, m.w.plan.TTL/2)):
			m.write(h)
		}
	}
	return h.Err()
}

// first is what the first look of a work is in the history: the hold's acquisition, if it is the
// hold's first work.
func (m *member) first(h *shard.Held) history.Kind {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.had[h.Key()] {
		return history.Look
	}
	m.had[h.Key()] = true
	return history.Acquire
}

// look calls Err.
func (m *member) look(h *shard.Held, kind history.Kind) bool {
	o := history.Op{Client: m.number, Kind: kind, Name: h.Name(), Token: int64(h.Token()), Call: m.w.rec.Now(), Outcome: history.OK}
	err := h.Err()
	if o.Return = m.w.rec.Now(); err != nil {
		if kind == history.Acquire {
			return false
		}
		o.Outcome, o.Err = history.Refused, err.Error()
	}
	m.w.rec.Add(o)
	return err == nil
}

// write writes to storage that refuses lower tokens.
func (m *member) write(h *shard.Held) {
	o := history.Op{Client: m.number, Kind: history.Fenced, Name: h.Name(), Token: int64(h.Token()), Call: m.w.rec.Now(), Outcome: history.OK}
	if err := m.w.gate.Admit(h.Name(), h.Token()); err != nil {
		o.Outcome, o.Err = history.Refused, err.Error()
	}
	o.Return = m.w.rec.Now()
	m.w.rec.Add(o)
}

// teamKeys are those of the workers.
func teamKeys() keys.Shards {
	k, err := keys.NewShards("", teamName)
	if err != nil {
		panic(err)
	}
	return k
}
