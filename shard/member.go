package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
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
	done    func() // ends the deferral of the lease's revocation

	key, wishKey string
	ended        bool
	jobs         int // goroutines on its session that will post
	works        int // that run on its session
	holds        map[int]*hold

	wrote   string // the value of the member key
	mod     int64  // its modification revision
	writing bool
	writeAt time.Time // not to be written before
	pace    backoff.Backoff
	removed bool // the member key was deleted for good, because it could not be written

	watches        map[string]*watcher.Watch // of the member key and the wish key
	countAt        time.Time
	othersAt       time.Time // when it is looked next whether others remain; zero: the member does not leave
	unplannedSince time.Time // since when counts have shown a member that is not planned for; zero: the last one did not
	waiters        map[int]*waiters
	missed         shards.Set // whose watch began after others had written, so that their queues are read again
	planning       bool
	stopPlanning   context.CancelFunc
	term           *term // under way; guarded by runner.mu
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

// join makes a member, if it is time to.
func (r *runner) join(now time.Time) {
	if r.joining != nil || r.leaving || now.Before(r.joinAt) {
		return
	}
	ctx, cancel := context.WithCancel(r.values)
	r.joining = cancel
	first := r.w.Member(now).Encode()
	r.job(func() func() {
		m, err := r.enter(ctx, first)
		return func() {
			r.joining = nil
			cancel()
			r.joined(m, err)
		}
	})
}

// joined begins a membership.
func (r *runner) joined(m *member, err error) {
	switch {
	case err == nil && r.leaving:
		m.s.CloseInBackground()
		m.cancel()
		m.done()
	case err == nil:
		r.rejoin.Reset()
		r.m = m
		m.begin()
	case r.leaving:
	case r.fatal(err) != nil:
		r.fail(r.fatal(err))
	default:
		r.joinAt = time.Now().Add(r.rejoin.Next())
		r.notify(Event{Kind: Retrying, Shard: -1, Err: err})
	}
}

// enter makes a session, and puts the member key and the wish key on it, if no member shares out
// another number of shards (rule SH2).
func (r *runner) enter(ctx context.Context, value []byte) (m *member, err error) {
	session, err := r.client.NewSession(ctx, r.opts.Session)
	if err != nil {
		return nil, err
	}
	s := inside.SessionOf(session)
	defer func() {
		if err != nil {
			s.CloseInBackground()
		}
	}()
	key, wish := r.keys.Member(r.n, s.ID()), r.keys.Wish(s.ID())
	none, look := r.noOthers()
	resp, err := r.host.Cluster.Txn(ctx, cluster.Request{Op: "join the shards' workers", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: append(none, s.Same(), txn.ModIs(key, 0), txn.ModIs(wish, 0)),
		Success: []*pb.RequestOp{txn.Put(key, value, s.ID()), txn.Put(wish, nil, s.ID())},
		Failure: append([]*pb.RequestOp{txn.Get(key)}, look...),
	})
	if err != nil {
		return nil, err
	}
	mod := resp.Header.Revision
	if own := txn.KV(resp, 0); !resp.Succeeded && own != nil { // an earlier copy of the request has put it
		mod = own.CreateRevision
	} else if !resp.Succeeded {
		return nil, cmp.Or(r.inTheWay(resp), s.Examine(ctx), errRefused)
	}
	ctx, cancel := context.WithCancel(r.values)
	return &member{
		runner: r, session: session, s: s, ctx: ctx, cancel: cancel, done: s.DeferRevocation(), key: key, wishKey: wish,
		wrote: string(value), mod: mod, watches: map[string]*watcher.Watch{}, holds: map[int]*hold{}, waiters: map[int]*waiters{},
		pace: backoff.Backoff{First: time.Second, Most: maxPause},
	}, nil
}

var errRefused = errors.New("the worker's keys could not be put, for no reason that shows")

// noOthers compares that no member shares out another number of shards; look reads one that does.
func (r *runner) noOthers() (none []*pb.Compare, look []*pb.RequestOp) {
	for _, others := range r.keys.MembersBut(r.n) {
		none = append(none, txn.NoneBetween(others[0], others[1]))
		look = append(look, txn.Between(others[0], others[1], 1))
	}
	return none, look
}

// inTheWay is why the worker cannot be a member, if what noOthers reads shows it after a first read
// in resp; nil: nothing is in the way.
func (r *runner) inTheWay(resp *pb.TxnResponse) error {
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

// begin follows what concerns the member.
func (m *member) begin() {
	now := time.Now()
	m.w.TTL = m.s.TTL()
	m.w.Joined(now)
	m.countAt = now.Add(backoff.Spread(m.s.TTL()))
	m.notify(Event{Kind: Joined, Shard: -1})
	context.AfterFunc(m.s.Context(), func() { m.post(m.lost) })
	m.watch(m.key, m.mod+1)
	m.watch(m.wishKey, m.mod+1)
	m.plan()
}

// watch watches the member key or the wish key.
func (m *member) watch(key string, from int64) {
	if m.ended {
		return
	}
	m.watches[key] = m.host.Watches.Watch(key, "", from, func(u watcher.Update) { m.post(func() { m.changed(key, u) }) })
}

// lost is the end of the session.
func (m *member) lost() {
	if m.ended {
		return
	}
	err := m.s.Err()
	m.end()
	m.report(observe.ShardsCounted{Left: true})
	for _, h := range m.holds {
		h.lose()
	}
	if m.works == 0 {
		m.done()
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

// end ends everything that goes on on the session.
func (m *member) end() {
	m.ended = true
	m.cancel()
	for _, w := range m.watches {
		w.Cancel()
	}
	m.follow(nil)
}

// changed processes changes of the member key and the wish key.
func (m *member) changed(key string, u watcher.Update) {
	if m.ended {
		return
	}
	for _, e := range u.Events {
		m.shown(e.Key, e.Value, e.ModRevision, e.Deleted)
	}
	switch {
	case u.Compacted > 0:
		m.watch(key, u.Compacted)
		m.countAt = time.Now() // reads what was missed
	case u.Err != nil: // permission may come back; until then the counts read the key
		time.AfterFunc(m.s.TTL(), func() { m.post(func() { m.watch(key, m.mod+1) }) })
	}
}

// shown processes what a watch or a read showed of the member key or the wish key.
func (m *member) shown(key string, value []byte, mod int64, deleted bool) {
	switch {
	case key == m.wishKey && deleted:
		m.restoreWish(0)
	case key == m.wishKey:
		wish, _ := shards.Decode(m.n, value) // what cannot be read says nothing
		m.w.Wished(time.Now(), wish, mod)
	case mod > m.mod && deleted:
		m.wrote, m.mod = "", 0
	case mod > m.mod && string(value) != m.wrote:
		m.wrote, m.mod = string(value), mod // somebody else's: it is written again
		m.heed(value)
	}
}

// heed takes from a member key that somebody else wrote whether the member is to be drained.
func (m *member) heed(value []byte) {
	if told, err := shards.DecodeMember(m.n, value); err == nil {
		m.w.Drain(told.Drained)
	}
}

// restoreWish puts the wish key again, which is gone (mod is 0), or is not on the member's lease.
func (m *member) restoreWish(mod int64) {
	m.job(func() func() {
		_, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "put the wish key", Repeat: cluster.Always}, &pb.TxnRequest{
			Compare: []*pb.Compare{m.s.Same(), txn.ModIs(m.wishKey, mod)},
			Success: []*pb.RequestOp{txn.Put(m.wishKey, nil, m.s.ID())},
		})
		return func() {
			if err != nil { // the next count finds that it is missing
				m.countAt = time.Now().Add(m.pace.Next())
			}
		}
	})
}

// write writes the member key, if it does not say already what it is to say.
func (m *member) write(now time.Time) {
	value := string(m.w.Member(now).Encode())
	if m.writing || m.removed || value == m.wrote || now.Before(m.writeAt) {
		return
	}
	m.writing, m.writeAt = true, time.Time{}
	mod := m.mod
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{m.s.Same(), txn.ModIs(m.key, mod)},
		Success: []*pb.RequestOp{txn.Put(m.key, []byte(value), m.s.ID())},
		Failure: []*pb.RequestOp{txn.Get(m.key)},
	}
	if mod == 0 { // somebody deleted it: others may have joined since (rule SH2)
		none, look := m.noOthers()
		t.Compare, t.Failure = append(t.Compare, none...), append(t.Failure, look...)
	}
	m.job(func() func() {
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "write the member key"}, t)
		return func() { m.written(value, mod, resp, err) }
	})
}

// written processes the answer to a write of the member key, if it had modification revision mod.
func (m *member) written(value string, mod int64, resp *pb.TxnResponse, err error) {
	m.writing, m.writeAt = false, time.Time{}
	switch {
	case m.ended:
	case err != nil && cluster.IsNoSpace(err) && m.leaving:
		m.remove()
	case err != nil:
		m.writeAt = time.Now().Add(m.pace.Next())
	case resp.Succeeded:
		m.pace.Reset()
		m.wrote, m.mod = value, resp.Header.Revision
	default:
		m.found(txn.KV(resp, 0), mod)
		if err := m.inTheWay(resp); m.fatal(err) != nil {
			m.fail(err)
		}
	}
}

// found processes what a write that was refused read in place of the member key; nil: no key. The
// write expected modification revision mod.
func (m *member) found(kv *mvccpb.KeyValue, mod int64) {
	m.wrote, m.mod = "", 0
	if kv != nil {
		m.wrote, m.mod = string(kv.Value), kv.ModRevision
		m.heed(kv.Value)
	}
	if m.mod == mod { // it is as it was: the session has ended, and does not know yet
		m.writeAt = time.Now().Add(m.pace.Next())
	}
}

// remove deletes the member key of one that leaves, and that cannot be written because the disk
// is full: that it leaves is then shown by its absence.
func (m *member) remove() {
	m.removed = true
	mod := m.mod
	m.job(func() func() {
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "delete the member key", Repeat: cluster.Always}, &pb.TxnRequest{
			Compare: []*pb.Compare{m.s.Same(), txn.ModIs(m.key, mod)},
			Success: []*pb.RequestOp{txn.Delete(m.key)},
			Failure: []*pb.RequestOp{txn.Get(m.key)},
		})
		return func() {
			switch {
			case m.ended:
			case err != nil:
				m.removed, m.writeAt = false, time.Now().Add(m.pace.Next())
			case !resp.Succeeded && txn.KV(resp, 0) != nil: // it is not the one that was to be deleted
				m.removed = false
				m.found(txn.KV(resp, 0), mod)
			}
		}
	})
}

// count counts the queues once a TTL (rule SH6), and reads the member's own keys, so that a
// watch that is silent costs a TTL at most.
func (m *member) count(now time.Time) {
	if now.Before(m.countAt) {
		return
	}
	m.countAt = now.Add(backoff.Spread(m.s.TTL()))
	from, to := m.keys.Queues()
	members, membersEnd := m.keys.Members()
	offered := m.w.Offered()
	m.job(func() func() {
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "count the shards' queues"}, &pb.TxnRequest{
			Success: []*pb.RequestOp{
				txn.Between(from, to, 1), txn.Get(m.wishKey), txn.Get(m.key),
				txn.NextUnder(m.keys.Planner().Prefix, 1, 0), txn.LastBetween(members, membersEnd, 0),
			},
		})
		return func() {
			if err == nil && !m.ended {
				m.counted(resp, offered)
			}
		}
	})
}

func (m *member) counted(resp *pb.TxnResponse, offered shards.Set) {
	rev := resp.Header.Revision
	for i, key := range []string{m.wishKey, m.key} {
		if kv := txn.KV(resp, i+1); kv != nil {
			m.shown(key, kv.Value, kv.ModRevision, false)
		} else {
			m.shown(key, nil, rev, true)
		}
	}
	if kv := txn.KV(resp, 1); kv != nil && kv.Lease != m.s.ID() { // it would stay when the session has ended
		m.restoreWish(kv.ModRevision)
	}
	if kv := txn.KV(resp, 2); kv != nil && kv.Lease != m.s.ID() && kv.ModRevision >= m.mod {
		m.wrote, m.mod = "", kv.ModRevision // likewise
	}
	n := txn.Count(resp, 0)
	if n > m.n {
		m.readWaiters(offered)
	}
	m.mu.Lock()
	t := m.term
	m.mu.Unlock()
	if t != nil {
		t.later(func() { t.counted(txn.Count(resp, 4)) })
	}
	counted := observe.ShardsCounted{Unowned: max(m.n-n, 0), Unplanned: m.unplanned(resp)}
	if !m.w.Counted(n) {
		m.report(counted)
		return
	}
	m.job(func() func() {
		view, err := read(m.ctx, m.host.Cluster, m.keys, m.n)
		return func() {
			if err != nil || m.ended {
				return
			}
			var empty shards.Set
			counted.Unowned = 0
			for i, q := range view.Queues {
				if len(q) == 0 {
					empty.Add(i)
				}
				if len(q) == 0 || q[0].Lease == 0 { // a foreign key: nobody has the shard
					counted.Unowned++
				}
			}
			m.report(counted)
			m.w.Listed(time.Now(), empty, view.Share(m.s.ID()))
		}
	})
}

// membersAtOnce is how many members one request reads to find one that could take shards.
const membersAtOnce = 50

// lookForOthers looks once a second, while the member leaves, whether any other is left that
// could take its shards.
func (m *member) lookForOthers(now time.Time) {
	switch {
	case !m.leaving:
		return
	case m.othersAt.IsZero():
		m.othersAt = now.Add(settle) // when those that leave too have said so
	}
	if now.Before(m.othersAt) {
		return
	}
	m.othersAt = now.Add(settle)
	m.job(func() func() {
		remain, err := m.othersRemain()
		return func() {
			if err == nil && !remain {
				m.w.Deserted(time.Now())
			}
		}
	})
}

// othersRemain reads members until it finds one, besides m, that could take shards.
func (m *member) othersRemain() (bool, error) {
	from, to := m.keys.Members()
	for {
		op := txn.Between(from, to, membersAtOnce)
		op.GetRequestRange().KeysOnly = false
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "read whether other workers remain"}, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
		if err != nil {
			return false, err
		}
		all := txn.KVs(resp, 0)
		for _, kv := range all {
			if other, err := shards.DecodeMember(m.n, kv.Value); string(kv.Key) != m.key && (err != nil || other.Takes()) {
				return true, nil
			}
		}
		if len(all) < membersAtOnce {
			return false, nil
		}
		from = append(all[len(all)-1].Key, 0)
	}
}

// unplanned is for how long the member that came last has waited for a plan, as a count shows it.
func (m *member) unplanned(resp *pb.TxnResponse) time.Duration {
	planner, last := txn.KV(resp, 3), txn.KV(resp, 4)
	if last == nil || planner != nil && last.CreateRevision <= shards.DecodePlanned(planner.Value) {
		m.unplannedSince = time.Time{}
		return 0
	}
	if m.unplannedSince.IsZero() {
		m.unplannedSince = time.Now()
	}
	return time.Since(m.unplannedSince)
}

// report reports to the client's observer what was counted.
func (m *member) report(ev observe.ShardsCounted) {
	ev.Name, ev.Lease, ev.Shards, ev.Held = m.name, m.s.ID(), m.n, len(m.holds)
	m.source.Now(m.values, ev)
}
