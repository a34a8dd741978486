package cluster

import (
	"context"
	"errors"
	"slices"
	"time"
)

// mostQueried is how many members a Hedge queries at once.
const mostQueried = 3

// A Hedge queries one member after another until one of them answers. It does not wait for a slow
// one before it queries the next, so that no single member, connection or stream delays the
// answer for long (rule N3).
type Hedge[R any] struct {
	Cluster *Cluster
	After   time.Duration // how long an answer may take before another member is queried too
	Twice   bool          // a member may be queried again before it has answered

	// Pick chooses the next member, if possible one that is not in queried.
	Pick func(queried []*Member) *Member
	// Query queries m. It returns soon after ctx ends.
	Query func(ctx context.Context, m *Member) (R, error)
	// Failed returns how long to wait after a query that failed with err, if no other is under way.
	// final means that no member would answer otherwise.
	Failed func(err error) (wait time.Duration, final bool)
	// Joined, if not nil, is called when m is queried too, because slow has not answered for after.
	Joined func(slow, m *Member, after time.Duration)
}

// An Answer is the result of a query.
type Answer[R any] struct {
	query
	Result R
	Took   time.Duration
	err    error
}

// query is a query under way.
type query struct {
	Member *Member
	Began  time.Time
}

// errOvertaken is why a member that was slow while another one answered is graded down.
var errOvertaken = errors.New("no answer until another member had answered")

// Run returns the first answer, an error that is final, or the end of ctx. Before it returns, it
// cancels the queries that are still under way and waits for them.
func (h *Hedge[R]) Run(ctx context.Context) (Answer[R], error) {
	ctx, cancel := context.WithCancel(ctx)
	r := hedging[R]{Hedge: h, ctx: ctx, answers: make(chan Answer[R]), next: time.NewTimer(0)}
	defer r.drain()
	defer cancel()
	defer r.next.Stop()
	for {
		select {
		case <-ctx.Done():
			return Answer[R]{}, ctx.Err()
		case <-r.next.C:
			r.begin()
		case a := <-r.answers:
			r.underWay = slices.DeleteFunc(r.underWay, func(q query) bool { return q == a.query })
			switch {
			case a.err == nil:
				r.overtaken(a.Member)
				return a, nil
			case ctx.Err() != nil:
				return Answer[R]{}, ctx.Err()
			}
			wait, final := h.Failed(a.err)
			if final {
				return Answer[R]{}, a.err
			}
			if len(r.underWay) > 0 {
				wait = time.Until(r.began.Add(h.After))
			}
			r.next.Reset(wait)
		}
	}
}

// hedging is one Run.
type hedging[R any] struct {
	*Hedge[R]
	ctx      context.Context
	answers  chan Answer[R]
	next     *time.Timer // fires when another member is queried
	began    time.Time   // when it last fired
	underWay []query     // in the order in which they began
	queried  []*Member   // since all members had been queried
}

// begin queries another member, unless enough are being queried, or all.
func (r *hedging[R]) begin() {
	if len(r.underWay) == mostQueried {
		return // the end of the next query sets the timer
	}
	r.began = time.Now()
	r.next.Reset(r.After)
	m := r.Pick(r.queried)
	if slices.Contains(r.queried, m) {
		r.queried = r.queried[:0]
		for _, q := range r.underWay {
			r.queried = append(r.queried, q.Member)
		}
		if m = r.Pick(r.queried); slices.Contains(r.queried, m) && !r.Twice {
			return
		}
	}
	q := query{m, r.began}
	if len(r.underWay) > 0 && r.Joined != nil {
		slow := r.underWay[0]
		r.Joined(slow.Member, m, q.Began.Sub(slow.Began))
	}
	r.queried, r.underWay = append(r.queried, m), append(r.underWay, q)
	go func() { // ends soon after ctx; Run waits for it
		result, err := r.Query(r.ctx, m)
		r.answers <- Answer[R]{q, result, time.Since(q.Began), err}
	}()
}

// overtaken grades down the members that were slow when by answered.
func (r *hedging[R]) overtaken(by *Member) {
	for _, q := range r.underWay {
		if q.Member != by && time.Since(q.Began) >= r.After {
			r.Cluster.Failed(q.Member, errOvertaken)
		}
	}
}

// drain waits for the queries under way, which were cancelled.
func (r *hedging[R]) drain() {
	for range r.underWay {
		<-r.answers
	}
}

// Usual is how long an answer usually takes. It is 0 before the first one.
type Usual time.Duration

// Note takes another answer into account.
func (u *Usual) Note(d time.Duration) {
	if *u == 0 {
		*u = Usual(d)
	}
	*u += (Usual(d) - *u) / 4
}

// WarnOfDistance logs, once, that the usual round trip is so long that each renewal of a session with
// this TTL leaves less than half of its validity.
func (c *Cluster) WarnOfDistance(usual, ttl time.Duration) {
	if usual > ttl/12 && c.far.CompareAndSwap(false, true) {
		c.log.Warn("etcd is too far away for the TTL, which should be twelve round trips", "round_trip", usual.Round(time.Millisecond), "ttl", ttl)
	}
}

// HedgeAfter is how long an answer may take before another member is queried too. It is three times as
// long as usual, at least 300 ms, and at most most.
func (u Usual) HedgeAfter(most time.Duration) time.Duration {
	return min(max(300*time.Millisecond, 3*time.Duration(u)), most)
}
