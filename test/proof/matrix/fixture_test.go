package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// sideBySide is how many clusters are under way at a time. Their faults last, and the cells wait.
const sideBySide = 6

func TestMain(m *testing.M) {
	if role := os.Getenv(workerEnv); role != "" {
		os.Exit(work(role))
	}
	testscale.SideBySide(sideBySide)
	goleak.VerifyTestMain(m)
}

const (
	password = "secret"
	// patience bounds one call, and is shorter than most faults; recovery bounds
	// all calls until one succeeds.
	patience = 2 * time.Second
	recovery = testscale.Hang
)

// fixture is what one cell has. It shares its cluster with the other cells of its fault, and
// nothing else.
type fixture struct {
	c      *etcdtest.Cluster
	fault  fault
	oracle *clientv3.Client
	name   string // of the lock
	rec    *history.Recorder
	pulse  *history.Pulse
	seen   *sightings

	targets  string         // the prefix of the keys that an operator's fault strikes
	spares   bool           // only half of them, so that a set loses one name and keeps another
	struck   map[string]int // by it, of each kind
	struckAt time.Duration  // when the fault struck
	stays    []stay         // keys that may not go too early

	a, b *person
	by   *person // beside them

	healed chan struct{} // closed when the fault is over

	bystander *pawl.Session // whom the fault must not concern
	holding   *lock.Held
	stop      chan struct{}
	bg        sync.WaitGroup
}

// person is a client with a number in the history.
type person struct {
	w      *fixture
	number int
	client *pawl.Client
}

// newWorld makes a cell's own.
func newWorld(t *testing.T, c *etcdtest.Cluster, f fault, name string) *fixture {
	w := &fixture{c: c, fault: f, name: name, rec: history.NewRecorder(history.Clock), stop: make(chan struct{}), healed: make(chan struct{})}
	w.targets, w.struck = name+"/", map[string]int{}
	w.pulse = w.rec.StartPulse()
	t.Cleanup(w.pulse.Stop)
	w.oracle = outside(t, c, f.auth)
	w.seen = watch(t, w)
	w.a, w.b = w.person(t, 1), w.person(t, 2)
	w.by = w.person(t, 3)
	var err error
	w.bystander, err = w.by.client.NewSession(w.within(t), lease.Options{TTL: w.fault.ttl()})
	require.NoError(t, err)
	w.holding, err = w.by.acquire(t, w.bystander, w.name+"-bystander", recovery)
	require.NoError(t, err)
	w.bg.Go(func() { w.by.look(w.holding, w.stop) }) // ends when stop is closed
	return w
}

// outside is a client past the proxies.
func outside(t *testing.T, c *etcdtest.Cluster, auth bool) *clientv3.Client {
	cfg := clientv3.Config{Endpoints: direct(c), TLS: c.TLS("root"), Logger: zap.NewNop(), DialTimeout: testscale.Hang}
	if auth {
		cfg.Username, cfg.Password = "root", password
	}
	v3, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = v3.Close() })
	return v3
}

// direct are the endpoints behind the proxies.
func direct(c *etcdtest.Cluster) (all []string) {
	for _, m := range c.Members() {
		all = append(all, m.Direct())
	}
	return all
}

func (w *fixture) person(t *testing.T, number int) *person {
	cfg := pawl.Config{Endpoints: w.c.Endpoints(), TLS: w.c.TLS("root"), SyncEvery: time.Second}
	if w.fault.auth {
		cfg.Username, cfg.Password = "root", password
	}
	if w.fault.resends {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(resend))
	}
	client, err := pawl.Dial(w.within(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return &person{w, number, client}
}

// record makes a call with a new context and adds it to the history.
func (p *person) record(kind history.Kind, name string, limit time.Duration, f func(ctx context.Context, o *history.Op)) {
	p.recordAll(kind, []string{name}, limit, f)
}

// recordAll is record of a call for several names at once, which is an operation on each.
func (p *person) recordAll(kind history.Kind, names []string, limit time.Duration, f func(ctx context.Context, o *history.Op)) {
	o := history.Op{Client: p.number, Kind: kind, Name: names[0], Call: p.w.rec.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	f(ctx, &o)
	o.Return = p.w.rec.Now()
	cancel()
	p.w.add(o, names)
}

// add adds o to the history, as an operation on each of names.
func (w *fixture) add(o history.Op, names []string) {
	for _, name := range names {
		o.Name = name
		w.rec.Add(o)
	}
}

// outcome is what an error says of a write.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, kv.ErrUnknown):
		return history.Unknown
	}
	return history.Refused
}

// session makes a session, with as many calls as it takes.
func (p *person) session(t *testing.T) *pawl.Session {
	var s *pawl.Session
	p.until(t, "a session", func() error {
		var err error
		p.record(history.Other, "session", patience, func(ctx context.Context, o *history.Op) {
			s, err = p.client.NewSession(ctx, lease.Options{TTL: p.w.fault.ttl()})
			o.Outcome = outcome(err)
		})
		assert.True(t, (s == nil) == (err != nil), "an error and a session are never both nil, nor both set")
		return err
	})
	return s
}

// until repeats f until it succeeds.
func (p *person) until(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for start := time.Now(); time.Since(start) < recovery; {
		if err = f(); err == nil {
			return
		}
		select {
		case <-p.w.stop:
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.NoError(t, err, "%s, within %v", what, recovery)
}

// acquire calls Acquire for an exclusive lock once.
func (p *person) acquire(t *testing.T, s *pawl.Session, name string, limit time.Duration) (h *lock.Held, err error) {
	return p.acquireAs(t, s, name, false, limit)
}

// acquireAs is acquire for a lock, shared or exclusive.
func (p *person) acquireAs(t *testing.T, s *pawl.Session, name string, shared bool, limit time.Duration) (h *lock.Held, err error) {
	m := lock.New(s, name, lock.Options{})
	acquire := m.Acquire
	if shared {
		acquire = m.AcquireShared
	}
	p.record(history.Acquire, name, limit, func(ctx context.Context, o *history.Op) {
		o.Shared = shared
		h, err = acquire(ctx)
		if o.Outcome = outcome(err); err != nil {
			o.Outcome, o.Err = history.Refused, err.Error()
		} else {
			o.Token = int64(h.Token())
		}
	})
	assert.True(t, (h == nil) == (err != nil), "an error and a handle are never both nil, nor both set")
	return h, err
}

// acquireSet is acquire for two names at once, both shared or both exclusive.
func (p *person) acquireSet(t *testing.T, s *pawl.Session, shared bool, limit time.Duration) (h *lock.Held, err error) {
	names := []string{p.w.name, p.w.second()}
	wants := []lock.Want{lock.Exclusive(names[0]), lock.Exclusive(names[1])}
	if shared {
		wants = []lock.Want{lock.Shared(names[0]), lock.Shared(names[1])}
	}
	p.recordAll(history.Acquire, names, limit, func(ctx context.Context, o *history.Op) {
		o.Shared = shared
		h, err = lock.NewMulti(s, lock.Options{}, wants...).Acquire(ctx)
		if o.Outcome = history.OK; err != nil {
			o.Outcome, o.Err = history.Refused, err.Error()
		} else {
			o.Token = int64(h.Token())
		}
	})
	assert.True(t, (h == nil) == (err != nil), "an error and a handle are never both nil, nor both set")
	return h, err
}

// acquireSlot is acquire for a slot of a semaphore with two.
func (p *person) acquireSlot(t *testing.T, s *pawl.Session, limit time.Duration) (h *lock.Held, err error) {
	const permits = 2
	p.record(history.Acquire, p.w.name, limit, func(ctx context.Context, o *history.Op) {
		h, err = lock.NewSemaphore(s, p.w.name, permits, lock.Options{}).Acquire(ctx)
		if o.Outcome = history.OK; err != nil {
			o.Outcome, o.Err = history.Refused, err.Error()
		} else {
			o.Token, o.Slot, o.Permits = int64(h.Token()), h.Slot()+1, permits
		}
	})
	assert.True(t, (h == nil) == (err != nil), "an error and a handle are never both nil, nor both set")
	return h, err
}

// hold acquires the cell's lock, with as many calls, and sessions, as it takes.
func (p *person) hold(t *testing.T, s *pawl.Session) *lock.Held { return p.holdAs(t, s, false) }

// holdAs is hold, shared or exclusive.
func (p *person) holdAs(t *testing.T, s *pawl.Session, shared bool) *lock.Held {
	return untilHeld(t, p, s, "the lock", func(s *pawl.Session) (*lock.Held, error) {
		return p.acquireAs(t, s, p.w.name, shared, patience)
	})
}

// holdSet is holdAs for two names at once.
func (p *person) holdSet(t *testing.T, s *pawl.Session, shared bool) *lock.Held {
	return untilHeld(t, p, s, "the set", func(s *pawl.Session) (*lock.Held, error) {
		return p.acquireSet(t, s, shared, patience)
	})
}

// holdSlot is hold for a slot of a semaphore with two.
func (p *person) holdSlot(t *testing.T, s *pawl.Session) *lock.Held {
	return untilHeld(t, p, s, "a slot", func(s *pawl.Session) (*lock.Held, error) {
		return p.acquireSlot(t, s, patience)
	})
}

// untilHeld repeats acquire until it succeeds, with new sessions where one has ended.
func untilHeld(t *testing.T, p *person, s *pawl.Session, what string, acquire func(s *pawl.Session) (*lock.Held, error)) (h *lock.Held) {
	p.until(t, what, func() (err error) {
		if s.Err() != nil {
			s = p.session(t)
		}
		h, err = acquire(s)
		return err
	})
	return h
}

// look calls Err again and again until stop is closed.
func (p *person) look(h *lock.Held, stop <-chan struct{}) {
	for {
		p.once(h)
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *person) once(h *lock.Held) error {
	o := history.Op{Client: p.number, Kind: history.Look, Token: int64(h.Token()), Slot: h.Slot() + 1, Call: p.w.rec.Now()}
	err := h.Err()
	o.Return = p.w.rec.Now()
	if o.Outcome = history.OK; err != nil {
		o.Outcome, o.Err = history.Refused, err.Error()
	}
	p.w.add(o, h.Names())
	return err
}

// write writes under the lock's guard, with one call.
func (p *person) write(h *lock.Held) (err error) {
	p.record(history.Guarded, h.Name(), patience, func(ctx context.Context, o *history.Op) {
		o.Token = int64(h.Token())
		_, err = p.client.KV().Txn(ctx, kv.Txn{
			Guards: []kv.Guard{h.Guard()},
			Then:   []kv.Op{kv.Put(p.w.data(), fmt.Appendf(nil, "%d", h.Token()))},
		})
		switch {
		case err == nil:
			o.Outcome = history.OK
		case errors.Is(err, kv.ErrFenced):
			o.Outcome = history.Refused
		default:
			o.Outcome, o.Err = history.Unknown, err.Error()
		}
	})
	return err
}

// release gives the lock back, with as many calls as it takes to decide it.
func (p *person) release(t *testing.T, h *lock.Held) (err error) {
	p.until(t, "a release", func() error {
		p.recordAll(history.Release, h.Names(), patience, func(ctx context.Context, o *history.Op) {
			o.Token, o.Slot = int64(h.Token()), h.Slot()+1
			if err = h.Release(ctx); err != nil {
				o.Err = err.Error()
			}
			switch o.Outcome = outcome(err); {
			case err != nil && !errors.Is(err, lock.ErrLost):
				o.Outcome = history.Unknown
			}
		})
		if errors.Is(err, lock.ErrLost) {
			return nil
		}
		return err
	})
	assert.Error(t, h.Err(), "what was released has ended")
	return err
}

// second is the other name of the cell's sets.
func (w *fixture) second() string { return w.name + "-second" }

// data is the key that is written under the guard.
func (w *fixture) data() string { return "data/" + w.name }
