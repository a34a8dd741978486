package shard

import (
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/observe"
)

// workerKeysAtMost is how many of the workers' keys the planner reads once a TTL. A worker has three. If
// there are more, the planner relies on its watch alone.
const workerKeysAtMost = 10_000

// count counts the queue keys once a TTL (rule SH6), and reads the member's keys, so that a watch that
// is silent costs a TTL at most. The planner reads those of all workers, without values, for the same
// reason.
func (m *member) count(now time.Time) {
	if now.Before(m.countAt) {
		return
	}
	m.countAt = now.Add(backoff.Spread(m.s.TTL()))
	from, to := m.keys.Queues()
	members, membersEnd := m.keys.Members()
	t := &pb.TxnRequest{Success: []*pb.RequestOp{
		txn.Between(from, to, 1), txn.Get(m.wishKey), txn.Get(m.key),
		txn.NextUnder(m.keys.Planner().Prefix, 1, 0), txn.LastBetween(members, membersEnd, 0),
	}}
	term := m.currentTerm()
	if term != nil {
		workers, workersEnd := m.keys.Workers()
		t.Success = append(t.Success, txn.Between(workers, workersEnd, workerKeysAtMost))
	}
	offered := m.w.Offered()
	m.job(func() func() {
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "count the shards' queues"}, t)
		return func() {
			if err != nil || m.ended {
				return
			}
			if all := txn.KVs(resp, 5); term != nil && len(all) == txn.Count(resp, 5) {
				term.counted(unread(all))
			}
			m.counted(resp, offered)
		}
	})
}

// counted processes a count.
func (m *member) counted(resp *pb.TxnResponse, offered shards.Set) {
	m.ownKeys(resp.Header.Revision, txn.KV(resp, 1), txn.KV(resp, 2))
	n := txn.Count(resp, 0)
	said := m.heard(txn.KV(resp, 3))
	poison := said.AllPoison()
	if n > m.n {
		m.readWaiters(offered)
	}
	none := max(m.n-n, 0)
	resting := min(none, poison.Len())
	counted := observe.ShardsCounted{Unowned: none - resting, Resting: resting, Unplanned: m.unplanned(resp)}
	if m.w.Counted(n, txn.Count(resp, 4), poison) {
		m.list(counted, poison)
	} else {
		m.report(counted)
	}
}

// heard processes what a count showed of the planner's key, or nil if there is none. What a planner
// said before it ended is what this worker would begin with, until the next one speaks.
func (m *member) heard(planner *mvccpb.KeyValue) (said shards.Said) {
	if planner == nil {
		return said
	}
	if said = shards.DecodeSaid(m.n, planner.Value); said.Planned == 0 && len(said.Poison) == 0 { // it has not planned yet
		return said
	}
	m.mu.Lock()
	m.said = said
	m.mu.Unlock()
	for _, d := range said.Doubles {
		if d.Lease == m.s.ID() {
			m.doubled("it has given its place to a later one")
		} else if d.By == m.s.ID() && time.Since(m.since) > 2*m.s.TTL() { // a dead one's key would be gone
			m.doubled("it has taken the place of an earlier one, which still runs")
		}
	}
	return said
}

// doubled reports, once, that another worker that runs has the same ID.
func (m *member) doubled(what string) {
	if !m.double {
		m.double = true
		m.notify(Event{Kind: SameID, Shard: -1, Err: fmt.Errorf("another worker has the ID %q: %s", m.opts.ID, what)})
	}
}

// ownKeys processes what a read at revision rev showed of the wish key and the member key. A key that
// is not on the member's lease would stay when the session has ended, so it is put again.
func (m *member) ownKeys(rev int64, wish, own *mvccpb.KeyValue) {
	show := func(key string, kv *mvccpb.KeyValue) {
		if kv != nil {
			m.shown(key, kv.Value, kv.ModRevision, false)
		} else {
			m.shown(key, nil, rev, true)
		}
	}
	show(m.wishKey, wish)
	show(m.key, own)
	if wish != nil && wish.Lease != m.s.ID() {
		m.restoreWish(wish.ModRevision)
	}
	if own != nil && own.Lease != m.s.ID() && own.ModRevision >= m.mod {
		m.wrote, m.mod = "", own.ModRevision
	}
}

// list reads all queues, to find the shards that have no owner, and reports counted with the result.
func (m *member) list(counted observe.ShardsCounted, poison shards.Set) {
	m.job(func() func() {
		view, err := readOwners(m.ctx, m.host.Cluster, m.keys, m.n)
		return func() {
			if err != nil || m.ended {
				return
			}
			var empty shards.Set
			counted.Unowned, counted.Resting = 0, 0
			for i, q := range view.Queues {
				if len(q) == 0 {
					empty.Add(i)
				}
				switch {
				case len(q) == 0 && poison.Has(i):
					counted.Resting++
				case len(q) == 0 || q[0].Lease == 0: // a foreign key, so no worker has the shard
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

// lookForOthers reads once a second, while the member leaves, whether another one remains that could
// take its shards.
func (m *member) lookForOthers(now time.Time) {
	switch {
	case !m.leaving:
		return
	case m.othersAt.IsZero():
		m.othersAt = now.Add(settle) // by then, others that leave too have said so
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

// unplanned is how long the member that came last has waited for a plan, as a count shows it.
func (m *member) unplanned(resp *pb.TxnResponse) time.Duration {
	planner, last := txn.KV(resp, 3), txn.KV(resp, 4)
	if last == nil || planner != nil && last.CreateRevision <= shards.DecodeSaid(m.n, planner.Value).Planned {
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
	if m.w.Meter != nil {
		ev.Load, ev.Unmeasured = m.w.Meter.Sum(), m.loads.unknown
	}
	m.source.Now(m.values, ev)
}
