package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/observe"
)

// A member is one session of a runner, with its member key and its wish key.
type member struct {
	*runner
	session *pawl.Session
	s       *session.Session
	ctx     context.Context // ends with the membership
	cancel  context.CancelFunc

	carriers []*carrier         // the first is the member's own session
	leases   map[int64]struct{} // of all that have been carriers
	pending  []pending          // acquisitions that wait for a carrier
	quits    bool               // one of them may have ended
	making   int                // carriers that are being made
	makeAt   time.Time          // no carrier is made before
	makePace backoff.Backoff

	key, wishKey string
	ended        bool
	jobs         int // goroutines on its session that will still post
	holds        map[int]*hold

	self     shards.Member // what was encoded last
	encoded  string        // as this value; "" if nothing was
	comingAt time.Time     // when to look at its Coming again
	wrote    string        // the value of the member key
	mod      int64         // its modification revision
	writing  bool
	writeAt  time.Time // the member key must not be written before
	pace     backoff.Backoff
	removed  bool // the member key was deleted for good, because it could not be written

	watches        map[string]*watcher.Watch // of the member key and the wish key
	countAt        time.Time
	othersAt       time.Time // when to read next whether others remain; zero if the member does not leave
	unplannedSince time.Time // since when counts have shown an unplanned member; zero if the last did not
	waiters        map[int]*waiters
	followed       shards.Set // the shards in waiters
	missed         shards.Set // shards whose watch began after a write by others; their queues are read again
	planning       bool
	stopPlanning   context.CancelFunc
	since          time.Time
	double         bool        // it has reported that another worker has its ID
	term           *term       // under way; guarded by runner.mu
	said           shards.Said // what the planner said in the last count; guarded by runner.mu
}

// job is runner.job for the work that has to end before another session is made.
func (m *member) job(job func() func()) {
	m.jobs++
	m.runner.job(func() func() {
		then := job()
		return func() {
			m.jobs--
			then()
		}
	})
}

// join makes a member, if there is none and the pause is over.
func (r *runner) join(now time.Time) {
	if r.joining != nil || r.leaving || now.Before(r.joinAt) {
		return
	}
	ctx, cancel := context.WithCancel(r.values)
	r.joining = cancel
	first, denied := r.w.Member(now).Encode(), r.denied
	r.job(func() func() {
		m, err := r.enter(ctx, first, denied)
		return func() {
			r.joining = nil
			cancel()
			r.joined(m, err)
		}
	})
}

// failureOf names a failure to join, or to queue for a shard, in the log.
func failureOf(err error) string {
	if cluster.IsPermissionDenied(err) {
		return "permission"
	}
	return "cluster"
}

// joined begins a membership.
func (r *runner) joined(m *member, err error) {
	switch {
	case err == nil && r.leaving:
		m.s.CloseInBackground()
		m.cancel()
		m.carriers[0].done()
	case err == nil:
		r.rejoin.Reset()
		r.denied = false
		r.failures.Works()
		r.m = m
		m.begin()
	case r.leaving:
	case r.fatal(err) != nil:
		r.fail(r.fatal(err))
	default:
		r.joinAt = time.Now().Add(r.rejoin.Next())
		r.denied = cluster.IsPermissionDenied(err)
		r.failures.Failed(failureOf(err), err)
		r.notify(Event{Kind: Retrying, Shard: -1, Err: err})
	}
}

// enter makes a session, and puts the member key and the wish key on it, if no member was started with
// another number of shards (rule SH2).
//
// If the last try was denied, it first asks whether this one would be, so that no try for which the
// permission is missing grants a lease.
func (r *runner) enter(ctx context.Context, value []byte, denied bool) (m *member, err error) {
	if denied {
		if err := session.Permitted(ctx, r.host, r.keys.Prefix); err != nil {
			return nil, err
		}
	}
	session, err := r.client.NewSession(ctx, r.opts.Session)
	if err != nil {
		return nil, err
	}
	s := hooks.SessionOf(session)
	defer func() {
		if err != nil {
			s.CloseInBackground()
		}
	}()
	key, wish := r.keys.Member(r.n, s.ID()), r.keys.Wish(s.ID())
	none, read := r.noOthers()
	resp, err := r.host.Cluster.Txn(ctx, cluster.Request{Op: "join the shards' workers", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: append(none, s.Same(), txn.ModIs(key, 0), txn.ModIs(wish, 0)),
		Success: []*pb.RequestOp{txn.Put(key, value, s.ID()), txn.Put(wish, nil, s.ID())},
		Failure: append([]*pb.RequestOp{txn.Get(key)}, read...),
	})
	if err != nil {
		return nil, err
	}
	mod := resp.Header.Revision
	if own := txn.KV(resp, 0); !resp.Succeeded && own != nil { // an earlier copy of the request has put it
		mod = own.CreateRevision
	} else if !resp.Succeeded {
		return nil, cmp.Or(r.conflict(resp), s.Examine(ctx), errRefused)
	}
	ctx, cancel := context.WithCancel(r.values)
	m = &member{
		runner: r, session: session, s: s, ctx: ctx, cancel: cancel, key: key, wishKey: wish,
		wrote: string(value), mod: mod, watches: map[string]*watcher.Watch{}, holds: map[int]*hold{}, waiters: map[int]*waiters{},
		pace: backoff.Backoff{First: time.Second, Most: maxPause}, makePace: backoff.Backoff{First: minPause, Most: maxPause},
		carriers: []*carrier{newCarrier(session)}, leases: map[int64]struct{}{s.ID(): {}},
	}
	m.carriers[0].m, m.carriers[0].named = m, true
	return m, nil
}

var errRefused = errors.New("the worker's keys could not be put, for no reason that shows")

// noOthers returns comparisons that no member was started with another number of shards, and in read
// the reads of one that was.
func (r *runner) noOthers() (none []*pb.Compare, read []*pb.RequestOp) {
	for _, others := range r.keys.MembersBut(r.n) {
		none = append(none, txn.NoneBetween(others[0], others[1]))
		read = append(read, txn.Between(others[0], others[1], 1))
	}
	return none, read
}

// conflict returns why the worker cannot be a member, according to the reads of noOthers, which follow
// a first read in resp. It returns nil if no other member conflicts.
func (r *runner) conflict(resp *pb.TxnResponse) error {
	for i := 1; i < len(resp.Responses); i++ {
		if other := txn.KV(resp, i); other == nil {
			continue
		} else if k := r.keys.Parse(string(other.Key)); k.Kind == keys.ShardsMember {
			return fmt.Errorf("%w: %d instead of %d", ErrCount, k.N, r.n)
		} else {
			return fmt.Errorf("%q is no worker's key: delete it", other.Key)
		}
	}
	return nil
}

// begin starts the watches and the planner's campaign of the member.
func (m *member) begin() {
	now := time.Now()
	m.w.TTL, m.since = m.s.TTL(), now
	m.w.Joined(now)
	m.countAt = now.Add(backoff.Spread(m.s.TTL()))
	m.notify(Event{Kind: Joined, Shard: -1})
	context.AfterFunc(m.s.Context(), func() { m.post(m.lost) })
	m.watch(m.key, m.mod+1)
	m.watch(m.wishKey, m.mod+1)
	m.plan()
}

// lost processes the end of the session.
func (m *member) lost() {
	if m.ended {
		return
	}
	err := m.s.Err()
	for _, c := range m.carriers[1:] { // a worker without a member key holds nothing (rule SH11)
		c.s.Abandon(err)
	}
	m.end()
	m.report(observe.ShardsCounted{Left: true})
	for _, h := range m.holds {
		h.lose()
	}
	switch {
	case m.leaving:
	case m.fatal(err) != nil:
		m.fail(m.fatal(err))
	default:
		m.joinAt = time.Now().Add(backoff.Jitter(minPause))
		m.notify(Event{Kind: Retrying, Shard: -1, Err: err})
	}
}

// end ends everything that runs on the session.
func (m *member) end() {
	m.ended = true
	m.cancel()
	for _, w := range m.watches {
		w.Cancel()
	}
	m.follow(nil)
	m.dropPending()
	for _, c := range m.carriers {
		c.end()
	}
	m.w.Self.Carriers = nil
	if m.w.Meter != nil {
		m.w.Meter.Reset()
	}
}
