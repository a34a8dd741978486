package simulate

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// Terms are what the clients of a scenario ask of their sessions and locks.
type Terms struct {
	LockDelay   time.Duration
	Limits      bool // AtLeast, MaxHold and Stall, of some acquisitions
	EtcdLayout  bool // of some acquisitions
	Once        bool // now and then a job instead of an acquisition
	RecordFirst bool // of such jobs
}

// termsOf makes the terms for a seed.
func termsOf(seed uint64, ttl time.Duration) (t Terms) {
	r := rand.New(rand.NewPCG(seed, 3))
	if r.IntN(3) == 0 {
		t.LockDelay = between(r, ttl/4, 2*ttl)
	}
	t.Limits, t.EtcdLayout, t.Once, t.RecordFirst = r.IntN(2) == 0, r.IntN(4) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	return t
}

// life is how long the server keeps a lease without a renewal.
func (p Plan) life() time.Duration {
	return p.TTL + p.LockDelay*6/5 + time.Second
}

// agree chooses the options of an acquisition, after what it acquires.
func (a *actor) agree() {
	t, ttl := a.w.plan.Terms, a.w.plan.TTL
	a.opts = lock.Options{RecordFirst: t.RecordFirst}
	switch {
	case !t.Limits || a.r.IntN(2) == 0:
	case a.calm:
		a.opts.AtLeast = between(a.r, 1, ttl/4)
	default:
		a.opts.AtLeast = between(a.r, 1, 3*ttl/2)
	}
	if t.Limits && a.r.IntN(3) == 0 {
		a.opts.MaxHold = between(a.r, time.Millisecond, ttl)
	}
	if t.Limits && a.r.IntN(3) == 0 {
		a.opts.Stall = between(a.r, time.Second, time.Second+ttl)
	}
	a.opts.EtcdLayout = t.EtcdLayout && a.r.IntN(2) == 0
	for _, w := range a.wants {
		a.opts.EtcdLayout = a.opts.EtcdLayout && !w.shared && w.limit == 0
	}
}

// tenure is an actor's session, as truth knows it.
type tenure struct {
	t        *truth
	lease    int64
	detached atomic.Bool
}

// end is when the session of a lease ended. Until tried, somebody tried to take it over, and failed.
type end struct{ at, tried time.Duration }

// sit has truth learn when the session ends that was just made, unless err says that there is none. A
// session that is detached goes on in its successor.
func (a *actor) sit(err error) {
	if err != nil {
		return
	}
	s, sess := &tenure{t: a.w.truth, lease: int64(a.sess.ID())}, a.sess
	a.tenure = s
	go func() { // ends with the session, at the latest when the client is closed
		<-sess.Done()
		if !s.detached.Load() {
			s.over()
		}
	}()
}

// over records that nobody keeps the lease any more.
func (s *tenure) over() { s.t.leaseLeft(s.lease, s.t.now()) }

// leaseLeft records that nobody keeps a lease from at on, although somebody may have tried to since.
func (t *truth) leaseLeft(lease int64, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.ended[lease]; !ok {
		t.ended[lease] = end{at, t.now()}
	}
}

// keepsAtLeast reports whether the session of l had not ended when its key was deleted. A takeover that fails
// deletes nothing, but the lease may expire before it has failed. The caller holds t.mu.
func (t *truth) keepsAtLeast(l *life) bool {
	e, ended := t.ended[l.form.Lease]
	return !ended || l.to < e.at || l.to < e.tried && !l.expired
}

// agreement is what was asked of an acquisition.
type agreement struct {
	lock.Options
	given    bool            // released while it was held, by who took it over
	progress []time.Duration // when a Progress had returned nil
}

// acquisitionsOf are those of a hold, one in each queue.
func acquisitionsOf(wants []want, h *lock.Held) (all []acquired) {
	for _, w := range wants {
		all = append(all, acquiredBy(history.Op{Name: w.name, Slot: w.slot, Token: int64(h.Token())}))
	}
	return all
}

// agreed records the options of an acquisition.
func (t *truth) agreed(wants []want, h *lock.Held, opts lock.Options) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range acquisitionsOf(wants, h) {
		t.terms[of] = &agreement{Options: opts}
	}
}

// progressed records that a Progress had returned nil at at.
func (t *truth) progressed(wants []want, h *lock.Held, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range acquisitionsOf(wants, h) {
		if a := t.terms[of]; a != nil {
			a.progress = append(a.progress, at)
		}
	}
}

// stalls is when an acquisition that was won then ends without another Progress than those before now.
func (a *agreement) stalls(won, now time.Duration) time.Duration {
	last := won
	for _, at := range a.progress {
		if at <= now {
			last = max(last, at)
		}
	}
	return last + a.Stall
}

// gaveBack records that an acquisition was released by the session that took it over.
func (t *truth) gaveBack(wants []want, h *lock.Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range acquisitionsOf(wants, h) {
		t.terms[of].given = true
	}
}

// leaves reports whether a Release that returned nil has left the key, although it was not to. The caller
// holds t.mu.
func (t *truth) leaves(of acquired, l *life, o history.Op) bool {
	if a := t.terms[of]; a != nil && a.AtLeast > 0 {
		return false
	}
	return l.to < 0 || l.to > o.Return
}

// stay is what the history shows of one acquisition.
type stay struct {
	called, won, held time.Duration // when Acquire was called, when it had returned, and when it was last seen to be held
	given             bool          // released while it was held
}

// unkept returns what did not last as long as AtLeast and LockDelay say, and what lasted for longer than
// MaxHold or Stall says. Only an operator ends them earlier, and the end of the session ends AtLeast. A session that
// is detached, and not taken over, has ended then.
func (t *truth) unkept(ops []history.Op, delay time.Duration) (bad []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stays := map[acquired]*stay{}
	for _, o := range ops {
		of := acquiredBy(o)
		if o.Kind == history.Acquire && o.Outcome == history.OK {
			stays[of] = &stay{called: o.Call, won: o.Return, held: o.Return}
		}
	}
	for _, o := range ops {
		s, a := stays[acquiredBy(o)], t.terms[acquiredBy(o)]
		switch {
		case s == nil || a == nil:
		case o.Kind == history.Release:
			s.given = s.given || o.Outcome != history.Refused || o.Call <= s.held // its session may end before it has returned
		case o.Kind == history.Look && o.Outcome == history.OK:
			if s.held = max(s.held, o.Call); a.MaxHold > 0 && o.Call > s.won+a.MaxHold {
				bad = append(bad, fmt.Sprintf("held for longer than MaxHold, %v: %v", a.MaxHold, o))
			}
			if a.Stall > 0 && o.Call > a.stalls(s.won, o.Call) {
				bad = append(bad, fmt.Sprintf("held without Progress for longer than Stall, %v: %v", a.Stall, o))
			}
		}
	}
	for _, l := range t.lives {
		of := acquired{l.name, l.created}
		s, a := stays[of], t.terms[of]
		if s == nil || a == nil || l.to < 0 || l.meddled >= 0 {
			continue
		}
		if until := max(s.called, l.first) + a.AtLeast; a.AtLeast > 0 && l.to < until && t.keepsAtLeast(l) {
			over, ended := t.ended[l.form.Lease]
			bad = append(bad, fmt.Sprintf("%s was deleted at %v, and AtLeast keeps it until %v; the session ended (%t) at %v", l.key, l.to, until, ended, over))
		}
		if delay > 0 && !s.given && !a.given && l.to < s.held+delay {
			bad = append(bad, fmt.Sprintf("%s was deleted at %v, was held at %v, and has a lock-delay of %v", l.key, l.to, s.held, delay))
		}
	}
	return bad
}

// isRecord reports whether key holds the record of a job.
func isRecord(key string) bool {
	for _, name := range names {
		if key == keys.OnceKey("", name) {
			return true
		}
	}
	return false
}
