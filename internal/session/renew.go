package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// maxUnderWay bounds the renewals of one round that are under way at once.
const maxUnderWay = 3

// loop renews the session until it ends. It owns the renewer and its renewals, arms dependents,
// ends holds that reach their limit, and compares the clock at the deadline.
func (s *Session) loop() {
	defer close(s.looped)
	ctx, cancel := context.WithCancel(context.Background())
	r := &renewer{s: s, ctx: ctx, results: make(chan finished, maxUnderWay)}
	r.round.begin = time.Now().Add(s.validity.window().sent.Sub(clock.Now()) + s.TTL()/4)
	defer r.stop()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.host.Cluster.Ended():
			_ = s.Err()
			return
		case f := <-r.results:
			r.finish(f)
		case <-s.poked:
		case <-timer.C:
		}
		if s.Err() != nil {
			return
		}
		now := time.Now()
		next := r.step(now)
		for _, due := range []time.Time{s.arm(now), r.warn(now)} {
			if !due.IsZero() && due.Before(next) {
				next = due
			}
		}
		if end := s.Deadline(); end.Before(next) {
			next = end
		}
		timer.Reset(time.Until(s.endHolds(clock.Now(), next)))
	}
}

// A renewer makes the renewals of one session's rounds.
type renewer struct {
	s        *Session
	ctx      context.Context
	results  chan finished     // has room for all renewals under way
	underWay []*renewing       // in order
	queried  []*cluster.Member // in this round, in order
	last     *cluster.Member   // the member that confirmed last
	usual    time.Duration     // the usual round trip
	round    round
	warned   bool          // jeopardy was reported since the last renewal
	reading  chan struct{} // closed when readRest has returned; nil: it was never started
}

// renewing is a confirmed renewal under way.
type renewing struct {
	member *cluster.Member
	began  time.Time
	cancel context.CancelFunc
}

// finished is a renewal with its result.
type finished struct {
	*renewing
	result
}

// hedgeAfter is how long a renewal may take before another joins it (rule N3): three round trips,
// at least 300 ms, and at most a quarter of the TTL, so that three renewals begin before the
// deadline: at the latest at a quarter of the TTL, at half of it, and at three quarters.
// docs/decisions/own-renewals.md has the table.
func (r *renewer) hedgeAfter() time.Duration {
	return min(max(300*time.Millisecond, 3*r.usual), r.s.TTL()/4)
}

// step begins what is due and returns when it has to be called next.
func (r *renewer) step(now time.Time) time.Time {
	if len(r.underWay) == 0 && r.s.urgent.Swap(false) {
		r.round.begin = now
	}
	for r.round.due(now, len(r.underWay)) {
		r.begin(now)
		r.round.hedge = now.Add(r.hedgeAfter())
	}
	return r.round.next(len(r.underWay))
}

// member chooses the member to query. The first renewal of a round uses another member than the one
// that confirmed last (rule N1), later renewals one that was not queried in this round. If all
// were, it is one that has no renewal under way.
func (r *renewer) member() *cluster.Member {
	c := r.s.host.Cluster
	if len(r.queried) == 0 {
		return c.Pick(r.last)
	}
	m := c.Pick(r.queried...)
	if slices.Contains(r.queried, m) {
		r.queried = r.queried[:0]
		for _, t := range r.underWay {
			r.queried = append(r.queried, t.member)
		}
		m = c.Pick(r.queried...)
	}
	return m
}

// begin starts a renewal.
func (r *renewer) begin(now time.Time) {
	m := r.member()
	r.queried = append(r.queried, m)
	ctx, cancel := context.WithCancel(r.ctx)
	t := &renewing{member: m, began: now, cancel: cancel}
	if len(r.underWay) > 0 {
		r.s.notifyHedged(r.underWay[0], t)
	}
	r.underWay = append(r.underWay, t)
	go func() { // bounded by renewalBound; stop waits for it through results
		res := r.s.renew(ctx, m)
		cancel()
		r.results <- finished{t, res}
	}()
}

// finish processes the result of a renewal.
func (r *renewer) finish(f finished) {
	i := slices.Index(r.underWay, f.renewing)
	if i < 0 {
		return
	}
	r.underWay = slices.Delete(r.underWay, i, i+1)
	now, left := time.Now(), r.s.validity.window().remaining(clock.Now())
	switch {
	case f.ended: // the loop finds the session ended
	case f.err != nil:
		r.s.failed(f.err)
		r.round.fail(now, r.s.TTL(), left)
	case r.s.extend(f.sent, f.ttl) == nil:
		r.confirmed(f, now)
		r.s.notifyRenewed(f, now, left)
	}
}

// errSlow is why a member is graded down after another one confirmed first.
var errSlow = errors.New("no answer to a renewal until another member had confirmed one")

// confirmed ends the round and cancels its other renewals.
func (r *renewer) confirmed(f finished, now time.Time) {
	late := r.hedgeAfter()
	trip := now.Sub(f.began) / 2 // it is two round trips: one renews, one reads
	if r.usual == 0 {
		r.usual = trip
	}
	r.usual += (trip - r.usual) / 4
	r.last, r.warned = f.member, false
	for _, t := range r.underWay {
		if t.member != f.member && now.Sub(t.began) >= late {
			r.s.host.Cluster.Failed(t.member, errSlow)
		}
		t.cancel()
	}
	r.drain()
	r.queried = r.queried[:0]
	r.round = round{begin: f.began.Add(f.ttl / 4)}
	r.s.keepWatching(f.rev)
	r.readRest(f)
}

// readRest reads what did not fit into the round's first read, in a goroutine, because the
// renewal counts already and the loop must not wait. At most one such read is under way.
func (r *renewer) readRest(f finished) {
	if len(f.more) == 0 || r.reading != nil && !isClosed(r.reading) {
		return
	}
	done := make(chan struct{})
	r.reading = done
	go func() { // bounded by renewalBound; stop waits for it
		defer close(done)
		ctx, cancel := context.WithTimeout(r.ctx, r.s.renewalBound())
		defer cancel()
		r.s.readRest(ctx, f.member, f.more)
	}()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drain waits for the renewals that were cancelled.
func (r *renewer) drain() {
	for len(r.underWay) > 0 {
		f := <-r.results
		r.underWay = slices.DeleteFunc(r.underWay, func(t *renewing) bool { return t == f.renewing })
	}
}

// stop waits for every renewal and read; r.ctx is cancelled.
func (r *renewer) stop() {
	r.drain()
	if r.reading != nil {
		<-r.reading
	}
}

// failed records why a renewal failed, for the text of a loss.
func (s *Session) failed(err error) {
	s.mu.Lock()
	first := s.validity.failed(err)
	s.mu.Unlock()
	if first {
		s.host.Cluster.Logger().Warn("session renewal failed, trying elsewhere", "lease", hex(s.id), "error", err)
	}
}
