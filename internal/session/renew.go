package session

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// A renewer makes the rounds of one session, and arms its dependents. A round ends with a confirmed
// renewal. It needs only one renewal, unless that is slow or fails.
type renewer struct {
	s        *Session
	ctx      context.Context
	begin    time.Time         // when the next round begins
	underWay bool              // whether a round is
	results  chan confirmation // of the round
	warned   bool              // jeopardy was reported since the last renewal
	jeopardy bool              // it was in the last round, so the log knows
	reading  chan struct{}     // closed when readRest has returned; nil if it was never started

	// Used by the round while one is under way.
	last     *cluster.Member // the member that confirmed last
	usual    cluster.Usual   // the round trip
	failures int             // in this round
	began    time.Time       // when it began
	late     bool            // this round is late, and has narrowed the line of the client's enqueues
}

func newRenewer(ctx context.Context, s *Session) *renewer {
	w := s.validity.window()
	return &renewer{s: s, ctx: ctx, results: make(chan confirmation), begin: time.Now().Add(w.sent.Sub(clock.Now()) + w.due())}
}

// run makes rounds until r.ctx ends, which the end of the session brings about.
func (r *renewer) run() {
	defer r.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case c := <-r.results:
			r.finish(c)
		case <-r.s.waking.woken:
		case <-timer.C:
		}
		if r.s.Err() != nil {
			return
		}
		now := time.Now()
		next := r.step(now)
		for _, due := range []time.Time{r.s.arm(now), r.warn(now)} {
			if !due.IsZero() && due.Before(next) {
				next = due
			}
		}
		timer.Reset(time.Until(next))
	}
}

// A confirmation is the end of a round.
type confirmation struct {
	cluster.Answer[result]
	err error // the session has ended
}

// step begins a round if one is due, and returns when it has to be called next.
func (r *renewer) step(now time.Time) time.Time {
	switch {
	case r.underWay:
		return now.Add(time.Hour) // the round ends before that
	case r.s.waking.urgent.Swap(false), r.s.waking.led.Swap(false) && now.Sub(r.began) >= r.s.validity.window().due()/8:
		r.begin = now
	case now.Before(r.begin):
		return r.begin
	}
	r.underWay, r.failures, r.began = true, 0, now
	r.s.leadRenewals()
	round := cluster.Hedge[result]{
		Cluster: r.s.host.Cluster, After: r.hedgeAfter(), Twice: true,
		Pick: r.pick, Query: r.renew, Failed: r.failed, Joined: r.joined,
	}
	go func() { // ends with the session, or a confirmed renewal; stop waits for it
		c := confirmation{}
		c.Answer, c.err = round.Run(r.ctx)
		r.results <- c
	}()
	return now.Add(time.Hour)
}

// hedgeAfter is how long a renewal may take before another joins it (rule N3): three round trips, at
// least 300 ms, and at most three tenths of the validity. So three renewals begin before the deadline,
// at the latest at three, six and nine tenths of the validity. docs/decisions/own-renewals.md has the
// table.
func (r *renewer) hedgeAfter() time.Duration {
	return r.usual.HedgeAfter(r.s.validity.window().due())
}

// pick chooses the member to query. The first renewal of a round uses a different member from the one
// that confirmed last (rule N1).
func (r *renewer) pick(queried []*cluster.Member) *cluster.Member {
	c := r.s.host.Cluster
	if len(queried) == 0 {
		return c.Pick(r.last)
	}
	return c.Pick(queried...)
}

// errEnded ends a round because the session has ended.
var errEnded = errors.New("the session has ended")

// renew makes a renewal on m and moves the deadline.
func (r *renewer) renew(ctx context.Context, m *cluster.Member) (result, error) {
	res := r.s.renew(ctx, m)
	res.left = r.s.validity.window().remaining(clock.Now())
	switch {
	case res.err != nil:
		return res, res.err
	case res.ended || r.s.extend(res.sent, res.ttl) != nil:
		return res, errEnded
	}
	return res, nil
}

// failed records a failure, and returns how long to wait before the next renewal. The first failure is
// followed by another renewal at once, later ones after a wait, so that the session survives a fault
// that ends before the deadline.
func (r *renewer) failed(err error) (wait time.Duration, final bool) {
	if err == errEnded {
		return 0, true
	}
	r.s.failed(err)
	r.isLate()
	if r.failures++; r.failures == 1 {
		return 0, false
	}
	w := r.s.validity.window()
	return backoff.Jitter(w.pause(r.failures, w.remaining(clock.Now()))), false
}

// joined records that a renewal is slow, so that another joins it.
func (r *renewer) joined(slow, m *cluster.Member, after time.Duration) {
	r.isLate()
	r.s.notifyHedged(slow, m, after)
}

// isLate bounds the client's enqueues until the round ends, because they may be why it is late.
func (r *renewer) isLate() {
	if !r.late {
		r.late = true
		r.s.host.Batch.Enqueues.Narrow()
	}
}

// noMoreLate ends what isLate has begun.
func (r *renewer) noMoreLate() {
	if r.late {
		r.late = false
		r.s.host.Batch.Enqueues.Widen()
	}
}

// finish processes the end of a round.
func (r *renewer) finish(c confirmation) {
	r.underWay = false
	r.noMoreLate()
	if c.err != nil {
		return // run finds the session ended
	}
	r.usual.Note(c.Took / 2) // two round trips, one to renew and one to read
	r.s.host.Cluster.WarnOfDistance(time.Duration(r.usual), r.s.TTL())
	r.last = c.Member
	r.safe()
	r.begin = c.Began.Add(r.s.validity.window().due())
	r.s.keepWatching(c.Result.rev)
	r.readRest(c)
	r.s.notifyRenewed(c)
}

// readRest reads, in a goroutine, what did not fit into the round's first read, because the renewal
// counts already and the next must not wait for it. At most one such read is under way.
func (r *renewer) readRest(c confirmation) {
	if len(c.Result.more) == 0 || r.reading != nil && !isClosed(r.reading) {
		return
	}
	done := make(chan struct{})
	r.reading = done
	go func() { // bounded by renewalBound; stop waits for it
		defer close(done)
		ctx, cancel := context.WithTimeout(r.ctx, r.s.renewalBound())
		defer cancel()
		r.s.readRest(ctx, c.Member, c.Result.more)
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

// stop waits for the round and the read, which end with r.ctx.
func (r *renewer) stop() {
	if r.underWay {
		<-r.results
	}
	r.noMoreLate()
	if r.reading != nil {
		<-r.reading
	}
}

// failed records why a renewal failed, for the text of a loss. While a member is failing, the log says so, once,
// and not at each renewal of each session.
func (s *Session) failed(err error) {
	s.mu.Lock()
	first := s.validity.failed(err)
	s.mu.Unlock()
	if first && s.host.Cluster.Failing() == "" {
		s.host.Cluster.Logger().Warn("session renewal failed, trying elsewhere", "lease", hex(s.id), "error", err)
	}
}
