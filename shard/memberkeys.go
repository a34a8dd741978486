package shard

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// watch watches the member key or the wish key.
func (m *member) watch(key string, from int64) {
	if m.ended {
		return
	}
	m.watches[key] = m.host.Watches.Watch(key, "", from, func(u watcher.Update) { m.post(func() { m.changed(key, u) }) })
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
	case u.Err != nil: // the permission may come back; until then the counts read the key
		time.AfterFunc(m.s.TTL(), func() { m.post(func() { m.watch(key, m.mod+1) }) })
	}
}

// shown processes what a watch or a read showed of the member key or the wish key.
func (m *member) shown(key string, value []byte, mod int64, deleted bool) {
	switch {
	case key == m.wishKey && deleted:
		m.restoreWish(0)
	case key == m.wishKey:
		wish, _ := shards.Decode(m.n, value) // a wish that cannot be decoded counts as empty
		m.w.Wished(time.Now(), wish, mod)
	case mod > m.mod && deleted:
		m.wrote, m.mod = "", 0
	case mod > m.mod && string(value) != m.wrote:
		m.found(value, mod) // somebody else wrote it, so it is written again
		m.heed(value)
	}
}

// found records the value of the member key, and which carriers it names (rule SH11). It does so whoever
// learned it, since the answer to the write that named them may be lost.
func (m *member) found(value []byte, mod int64) {
	m.wrote, m.mod = string(value), mod
	if !slices.ContainsFunc(m.carriers, func(c *carrier) bool { return !c.named }) {
		return
	}
	if known, err := shards.DecodeMember(m.n, value); err == nil {
		for _, c := range m.carriers {
			c.named = c.named || slices.Contains(known.Carriers, c.s.ID())
		}
	}
}

// heed reads, in a member key that somebody else wrote, whether the member has to be drained.
func (m *member) heed(value []byte) {
	if found, err := shards.DecodeMember(m.n, value); err == nil {
		m.w.Drain(found.Drained)
	}
}

// restoreWish puts the wish key again, because it is gone (mod is 0), or is not on the member's lease.
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

// write writes the member key, if its content has to change.
func (m *member) write(now time.Time) {
	if m.writing || m.removed || now.Before(m.writeAt) {
		return
	}
	value := m.value(now)
	if value == m.wrote {
		return
	}
	m.writing, m.writeAt = true, time.Time{}
	mod := m.mod
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{m.s.Same(), txn.ModIs(m.key, mod)},
		Success: []*pb.RequestOp{txn.Put(m.key, []byte(value), m.s.ID())},
		Failure: []*pb.RequestOp{txn.Get(m.key)},
	}
	if mod == 0 { // somebody deleted it, so others may have joined since (rule SH2)
		none, read := m.noOthers()
		t.Compare, t.Failure = append(t.Compare, none...), append(t.Failure, read...)
	}
	m.job(func() func() {
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "write the member key"}, t)
		return func() { m.written(value, mod, resp, err) }
	})
}

// comingPause is the pause before the member key is written again because of Coming alone, which changes
// with each of thousands of shards. It is short beside the shortest TTL of a planner.
const comingPause = 200 * time.Millisecond

// value is what the member key should contain now. It is encoded again only if it has changed.
func (m *member) value(now time.Time) string {
	self := m.w.Member(now)
	if m.encoded == m.wrote && now.Before(m.comingAt) {
		self.Coming = m.self.Coming
	}
	if m.encoded == "" || !self.Equal(m.self) {
		m.self, m.encoded = self, string(self.Encode())
		m.comingAt = now.Add(comingPause)
	}
	return m.encoded
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
		m.found([]byte(value), resp.Header.Revision)
	default:
		m.refusedAt(txn.KV(resp, 0), mod)
		if err := m.conflict(resp); m.fatal(err) != nil {
			m.fail(err)
		}
	}
}

// refusedAt processes the member key as a write that was refused found it, or nil if it is gone. The
// write expected modification revision mod.
func (m *member) refusedAt(kv *mvccpb.KeyValue, mod int64) {
	m.wrote, m.mod = "", 0
	if kv != nil {
		m.found(kv.Value, kv.ModRevision)
		m.heed(kv.Value)
	}
	if m.mod == mod { // no change, so the session has ended, and does not know it yet
		m.writeAt = time.Now().Add(m.pace.Next())
	}
}

// remove deletes the member key of a member that leaves, if it cannot be written because the disk is
// full. The absence of the key then shows that the member leaves.
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
			case !resp.Succeeded && txn.KV(resp, 0) != nil: // it is not the key that had to be deleted
				m.removed = false
				m.refusedAt(txn.KV(resp, 0), mod)
			}
		}
	})
}
