package shard

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// A term is one term of the planner (rule SH3).
type term struct {
	m   *member
	a   *queue.Acquisition
	p   *shards.Planner
	end context.CancelFunc // ends the loop

	odd  map[string]int64 // the keys of which the last count showed what the watch had not; see shards.View.Odd
	lost bool             // the watch has lost an event

	*mail

	source    *notify.Source
	sent      map[int64]time.Time
	sending   sync.WaitGroup
	slots     chan struct{} // bounds the writes under way
	said      string        // what the planner's key says
	planned   int64         // the revision in it
	saying    bool
	sayAfter  time.Time
	mu        sync.Mutex
	turned    time.Time      // when the loop last turned
	seen      []shards.Event // the workers' keys in the last count that is not compared yet
	abandoned bool
	resigned  bool // the term was resigned because its loop does not turn; only Run's goroutine uses it
}

const (
	writesAtOnce = 16
	writeAgain   = time.Second // after a write that failed
)

// plan campaigns to be the planner, repeatedly, until the membership ends or stopPlanning is called.
func (m *member) plan() {
	m.planning = true
	ctx, cancel := context.WithCancel(m.ctx)
	m.stopPlanning = cancel
	// Not a job of the member, so that an observer that does not return holds up no new session.
	m.runner.job(func() func() {
		for pace := (backoff.Backoff{First: minPause, Most: maxPause}); ctx.Err() == nil; {
			q := queue.Queue{Queue: m.keys.Planner(), Election: true}
			// No work rests on it.
			a, err := queue.Acquire(ctx, m.s, queue.Request{Value: shards.Said{}.Encode(), Work: &session.Deferral{}}, q)
			if err != nil {
				m.post(func() { m.heedFatal(err) })
				pace.Sleep(ctx)
				continue
			}
			pace.Reset()
			m.reign(ctx, a)
		}
		return func() {
			m.planning = false
			if m.leaving && (m.runner.m == nil || m.runner.m == m) {
				m.depart()
			}
		}
	})
}

// reign plans until the term or ctx ends, and then resigns.
func (m *member) reign(ctx context.Context, a *queue.Acquisition) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.Context(), cancel)()
	t := &term{m: m, a: a, end: cancel, source: m.host.Cluster.Notifier().NewSource(), mail: newMail(), said: string(shards.Said{}.Encode()), slots: make(chan struct{}, writesAtOnce), turned: time.Now()}
	m.setTerm(t)
	for t.run(ctx) {
	}
	m.setTerm(nil)
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), partWait)
	defer cancel()
	_ = a.Release(ctx, lock.ErrReleased)
}

func (m *member) setTerm(t *term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = t
}

// currentTerm is the term under way, or nil.
func (m *member) currentTerm() *term {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}

// lastSaid is what the planner said in the last count.
func (m *member) lastSaid() shards.Said {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said
}

// superviseTerm resigns a term whose loop has not turned for a TTL.
func (m *member) superviseTerm(now time.Time) {
	t := m.currentTerm()
	if t == nil {
		return
	}
	t.mu.Lock()
	stuck := !t.abandoned && now.Sub(t.turned) > m.s.TTL()
	t.abandoned = t.abandoned || stuck
	t.mu.Unlock()
	if stuck {
		t.end() // when the loop turns again
		m.job(func() func() {
			ctx, cancel := context.WithTimeout(m.ctx, releaseWait)
			defer cancel()
			_ = t.a.Release(ctx, lock.ErrReleased)
			return func() { t.resigned = true }
		})
	}
	if m.leaving && t.resigned { // do not wait for the loop
		t.resigned = false
		m.depart()
	}
}

// run reads everything, and plans starting at that revision. It returns true if everything has to be
// read again.
func (t *term) run(ctx context.Context) (again bool) {
	m := t.m
	var view *shards.View
	if err := listwatch.Persist(ctx, m.host.Cluster, func() (err error) {
		t.turn()
		view, err = read(ctx, m.host.Cluster, m.keys, m.n)
		return err
	}); err != nil {
		backoff.Sleep(ctx, minPause) // the permission may come back
		return ctx.Err() == nil && t.a.Err() == nil
	}
	before := t.p
	t.p = shards.NewPlanner(view, m.name, m.s.TTL(), settle, time.Now())
	if before != nil {
		t.p.Inherit(before)
	} else {
		t.p.Remember(time.Now(), m.lastSaid())
	}
	t.odd, t.lost = nil, false
	t.sent = map[int64]time.Time{}
	ctx, cancel := context.WithCancel(ctx)
	keys := listwatch.Keys{Key: m.keys.Prefix, End: string(txn.PrefixEnd(m.keys.Prefix))}
	tail := listwatch.Open(m.host.Watches, keys, view.Rev+1, t.news, nil)
	defer func() {
		tail.Close()
		cancel()
		t.sending.Wait()
		t.process()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t.turn()
		t.process()
		now := time.Now()
		gap, err := t.apply(now, tail)
		if gap || err != nil || t.lost || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		uneven := t.p.Waiting().IsZero()
		if planned, waited := t.p.Tick(now); planned {
			t.source.Now(m.values, observe.ShardsPlanned{Name: m.name, Lease: m.s.ID(), Wishes: len(t.p.Writes()), Waited: waited, Uneven: uneven})
		}
		t.write(ctx, now)
		t.proclaim(ctx, now)
		timer.Reset(max(t.p.Wake(now).Sub(now), 0))
		select {
		case <-t.news:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// counted has the loop compare the workers' keys, as a count read them, with what the watch has shown.
// A watch that lost an event would leave a member without shards forever.
func (t *term) counted(all []shards.Event) {
	t.mu.Lock()
	t.seen = all
	t.mu.Unlock()
	t.post(t.compare)
}

// compare finds out whether the watch has lost an event: two counts in a row know more of a key, and
// the watch has shown nothing of it in between. One count proves nothing, because a watch may be a
// moment behind, or ahead.
func (t *term) compare() {
	t.mu.Lock()
	all := t.seen
	t.seen = nil
	t.mu.Unlock()
	if all == nil {
		return
	}
	odd := t.p.View.Odd(all)
	for key, mod := range odd {
		old, was := t.odd[key]
		t.lost = t.lost || was && old == mod
	}
	t.odd = odd
}

// turn records that the loop turns.
func (t *term) turn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turned = time.Now()
}

// process does what was posted.
func (t *term) process() {
	for _, do := range t.take() {
		do()
	}
}

// apply processes what the watch has delivered.
func (t *term) apply(now time.Time, tail *listwatch.Tail) (gap bool, err error) {
	held, compacted, err := tail.Peek()
	for _, changes := range held {
		for _, e := range changes.Events {
			t.p.Apply(now, event(e))
		}
		tail.Drop()
	}
	return compacted > 0, err
}

// write sends the wishes that have to be put, those that gain first.
func (t *term) write(ctx context.Context, now time.Time) {
	for _, w := range t.p.Writes() {
		if until, sent := t.sent[w.Lease]; sent && (until.IsZero() || now.Before(until)) {
			continue
		}
		select {
		case t.slots <- struct{}{}:
		default:
			return // an answer wakes the loop
		}
		t.sent[w.Lease] = time.Time{}
		t.sending.Go(func() { // ends with the request, which ctx bounds
			rev, err := t.put(ctx, w)
			<-t.slots
			t.post(func() {
				delete(t.sent, w.Lease)
				if err != nil {
					t.sent[w.Lease] = time.Now().Add(writeAgain)
					time.AfterFunc(writeAgain, func() { t.post(func() {}) })
					return
				}
				t.p.Wrote(time.Now(), w, rev)
			})
		})
	}
}

// put puts a wish, guarded by the term, if its key is as it was when it was planned. It returns rev 0
// if that was refused.
func (t *term) put(ctx context.Context, w shards.Write) (rev int64, err error) {
	key := t.m.keys.Wish(w.Lease)
	resp, err := t.m.host.Cluster.Txn(ctx, cluster.Request{Op: "write a wish"}, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(t.a.Key(), int64(t.a.Token())), txn.ModIs(key, w.Mod)},
		Success: []*pb.RequestOp{txn.PutKeepingLease(key, w.Wish.Encode())},
		Failure: []*pb.RequestOp{txn.Stat(key)},
	})
	if err != nil {
		return 0, err
	}
	return txn.PutRevision(resp, 0), nil
}

// proclaim says up to which revision everything is planned for, and what the next planner has to know.
// It does so once a Settle at most.
func (t *term) proclaim(ctx context.Context, now time.Time) {
	if t.saying || now.Before(t.sayAfter) {
		return
	}
	said := t.p.Said(t.planned)
	value := said.Encode()
	if string(value) == t.said {
		return
	}
	t.saying = true
	t.sending.Go(func() { // ends with the request, which ctx bounds
		err := t.a.Rewrite(ctx, value)
		t.post(func() {
			t.saying, t.sayAfter = false, time.Now().Add(writeAgain)
			time.AfterFunc(writeAgain, func() { t.post(func() {}) })
			if err == nil {
				t.said, t.planned = string(value), said.Planned
			}
		})
	})
}
