package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// maxTries is how many tries of one round may be under way.
const maxTries = 3

// loop renews the session until it is over. It owns the renewer and its
// tries, arms acquisitions, ends holds that have a limit, and compares the clock when the deadline comes.
func (s *Session) loop() {
	defer close(s.looped)
	s.host.Renewals.begin()
	defer s.host.Renewals.end(s.host)
	ctx, cancel := context.WithCancel(context.Background())
	r := &renewer{s: s, ctx: ctx, results: make(chan finished, maxTries+1)}
	r.candidate.renewer = r
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

// A renewer makes the tries of one session's rounds.
type renewer struct {
	s       *Session
	ctx     context.Context
	results chan finished     // holds as many as there can be tries under way, and a batch's
	tries   []*try            // under way
	queried []*cluster.Member // in this round, one after the other
	last    *cluster.Member   // that confirmed
	usual   time.Duration     // the usual round trip
	round   round
	began   time.Time     // the last renewal that was confirmed
	apart   int           // for how many more rounds no batch is joined
	missed  int           // for how many rounds the last batch that failed kept it out; 0: the last one did not fail
	warned  bool          // that the session is in jeopardy was reported since the last renewal
	reading chan struct{} // closed when readRest has returned; nil: there was none

	candidate candidate
}

// A try is a confirmed renewal under way.
type try struct {
	member *cluster.Member
	began  time.Time
	cancel context.CancelFunc
}

// finished is a try with its result.
type finished struct {
	*try
	result
	batch bool // the try is a batch's
}

// hedgeAfter is how long a try may take before another joins it (rule N3):
// three round trips, but a quarter of the TTL at the most. So three tries
// begin while two round trips still fit before the deadline: at a quarter of the
// TTL, at half of it, and when the first has failed, a third after its beginning.
func (r *renewer) hedgeAfter() time.Duration {
	return min(max(300*time.Millisecond, 3*r.usual), r.s.TTL()/4)
}

// step begins what is due and returns when it wants to be called again.
func (r *renewer) step(now time.Time) time.Time {
	for r.round.due(now, len(r.tries)) {
		r.s.host.Renewals.withdraw(&r.candidate)
		r.begin(now)
		r.round.hedge = now.Add(r.hedgeAfter())
	}
	if r.joins() {
		r.s.host.Renewals.offer(&r.candidate, r.round.begin, r.s.TTL(), r.last)
	}
	return r.round.next(len(r.tries))
}

// joins reports whether the round may begin in a batch: nothing was tried in it yet, and the session
// had no trouble lately.
func (r *renewer) joins() bool {
	return r.apart == 0 && len(r.tries) == 0 && len(r.queried) == 0
}

// member chooses the member to query: at first another than the one that confirmed last
// (rule N1), then one that was not queried in this round; when all were, one that
// is not being queried.
func (r *renewer) member() *cluster.Member {
	c := r.s.host.Cluster
	if len(r.queried) == 0 {
		return c.Pick(r.last)
	}
	m := c.Pick(r.queried...)
	if slices.Contains(r.queried, m) {
		r.queried = r.queried[:0]
		for _, t := range r.tries {
			r.queried = append(r.queried, t.member)
		}
		m = c.Pick(r.queried...)
	}
	return m
}

// begin starts a try.
func (r *renewer) begin(now time.Time) {
	m := r.member()
	r.queried = append(r.queried, m)
	ctx, cancel := context.WithCancel(r.ctx)
	t := &try{member: m, began: now, cancel: cancel}
	if len(r.tries) > 0 {
		r.s.notifyHedged(r.tries[0], t)
	}
	r.tries = append(r.tries, t)
	go func() { // bounded by renewalBound; stop waits for it through results
		res := r.s.renew(ctx, m)
		cancel()
		r.results <- finished{t, res, false}
	}()
}

// finish takes in the result of a try.
func (r *renewer) finish(f finished) {
	if f.batch {
		r.finishBatch(f)
		return
	}
	i := slices.Index(r.tries, f.try)
	if i < 0 {
		return
	}
	r.tries = slices.Delete(r.tries, i, i+1)
	now, left := time.Now(), r.s.validity.window().remaining(clock.Now())
	switch {
	case f.over: // the loop sees it
	case f.err != nil:
		r.s.failed(f.err)
		r.round.fail(now, r.s.TTL(), left)
		r.apart = apartRounds
	case r.s.extend(f.sent, f.ttl) == nil:
		switch {
		case f.apart:
			r.apart = apartRounds
		case r.apart > 0 && len(r.queried) == 1: // at the first try
			r.apart--
		}
		r.confirmed(f, now)
		r.s.notifyRenewed(f, now, left)
	}
}

// finishBatch takes in what a batch was to the session. One that has failed changes
// nothing but that the session renews alone, a little earlier than it would have.
func (r *renewer) finishBatch(f finished) {
	r.s.host.Renewals.received(&r.candidate)
	now, left := time.Now(), r.s.validity.window().remaining(clock.Now())
	switch {
	case f.over: // the loop sees it
	case f.began.Before(r.began): // a later one was confirmed
	case f.err != nil: // because of it, or of another: that shows when it renews alone
		r.missed = min(max(2*r.missed, 1), apartRounds)
		r.apart = max(r.apart, r.missed)
		r.round.scatter(now)
	case r.s.extend(f.sent, f.ttl) == nil:
		r.missed = 0
		r.confirmed(f, now)
		r.s.notifyRenewed(f, now, left)
	}
}

// errSlow is why a member is graded down that was overtaken by another.
var errSlow = errors.New("no answer to a renewal until another member had confirmed one")

// confirmed ends the round: what else is under way is given up.
func (r *renewer) confirmed(f finished, now time.Time) {
	late := r.hedgeAfter()
	if !f.batch { // which takes longer
		trip := now.Sub(f.began) / 2 // the renewal, and the read
		if r.usual == 0 {
			r.usual = trip
		}
		r.usual += (trip - r.usual) / 4
	}
	r.last, r.began, r.warned = f.member, f.began, false
	for _, t := range r.tries {
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

// readRest reads what the round's first read had no room for, while the loop
// goes on: the renewal counts already. One such read at a time.
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

// drain waits for the tries that were cancelled. What a batch comes to meanwhile is of no interest
// any more.
func (r *renewer) drain() {
	for len(r.tries) > 0 {
		f := <-r.results
		if f.batch {
			r.s.host.Renewals.received(&r.candidate)
		}
		r.tries = slices.DeleteFunc(r.tries, func(t *try) bool { return t == f.try })
	}
}

// stop waits for every try and read; r.ctx is cancelled. A batch goes on without the session, which
// ends alone.
func (r *renewer) stop() {
	r.s.host.Renewals.withdraw(&r.candidate)
	r.drain()
	if r.reading != nil {
		<-r.reading
	}
}

// failed remembers why a try failed, for the text of a loss.
func (s *Session) failed(err error) {
	s.mu.Lock()
	first := s.validity.failed(err)
	s.mu.Unlock()
	if first {
		s.host.Cluster.Logger().Warn("session renewal failed, trying elsewhere", "lease", hex(s.id), "error", err)
	}
}
