package shard

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// waiters are the keys in the queue of an offered shard.
type waiters struct {
	watch *watcher.Watch // nil if it has not begun
	keys  map[string]seen
	rev   int64 // the revision of the last read
}

// seen is what is known of a key, up to revision mod.
type seen struct {
	mod  int64
	gone bool
}

// readAtOnce is how many queues are read in one request.
const readAtOnce = 64

// readAgain is the pause after a read that failed.
const readAgain = time.Second

// follow follows who waits for the shards in offered, and for no others.
func (m *member) follow(offered shards.Set) {
	for i := range m.followed.But(offered) {
		m.forget(i)
		m.w.Waits(i, false) // because nothing would report a change any more
	}
	begin := offered.Without(m.followed).Or(m.missed)
	for i := range offered.But(m.followed) {
		m.waiters[i] = &waiters{keys: map[string]seen{}}
		m.followed.Add(i)
	}
	m.missed = nil
	m.readWaiters(begin)
}

// forget follows who waits for shard i no more.
func (m *member) forget(i int) {
	if w := m.waiters[i]; w.watch != nil {
		w.watch.Cancel()
	}
	delete(m.waiters, i)
	m.followed.Remove(i)
}

// readWaiters reads who waits for shards, and watches their queues from then on.
func (m *member) readWaiters(all shards.Set) {
	var followed []int
	for i := range all.All() {
		if m.waiters[i] != nil {
			followed = append(followed, i)
		}
	}
	for part := range slices.Chunk(followed, readAtOnce) {
		m.readQueues(part)
	}
}

func (m *member) readQueues(part []int) {
	t := &pb.TxnRequest{}
	of := make([]*waiters, len(part))
	for at, i := range part {
		of[at] = m.waiters[i]
		t.Success = append(t.Success, txn.LastUnder(m.keys.Queue(i).Prefix, readAtOnce, 0))
	}
	m.job(func() func() {
		resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "read who waits for shards"}, t)
		return func() {
			for at, i := range part {
				if w := of[at]; m.waiters[i] != w || m.ended {
					continue
				} else if err != nil {
					m.readLater(i, w)
				} else {
					m.followQueue(i, w, resp, at)
				}
			}
		}
	})
}

// followQueue records what a read showed of a queue, and watches the queue. The watch starts at the
// present, so that etcd serves it at once.
func (m *member) followQueue(i int, w *waiters, resp *pb.TxnResponse, at int) {
	w.rev = resp.Header.Revision
	all := txn.KVs(resp, at)
	for key, known := range w.keys {
		if known.mod <= w.rev && !slices.ContainsFunc(all, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == key }) {
			delete(w.keys, key)
		}
	}
	for _, kv := range all {
		w.show(string(kv.Key), seen{mod: kv.ModRevision})
	}
	if w.watch == nil {
		prefix := m.keys.Queue(i).Prefix
		w.watch = m.host.Watches.WatchNow(prefix, string(txn.PrefixEnd(prefix)), w.rev+1, func(u watcher.Update) {
			m.post(func() { m.queueChanged(i, w, u) })
		})
	}
	m.reportWaiters(i, w)
}

// show records what was seen of a key, unless something later is known.
func (w *waiters) show(key string, now seen) {
	if now.mod > w.keys[key].mod {
		w.keys[key] = now
	}
}

func (m *member) queueChanged(i int, w *waiters, u watcher.Update) {
	if m.waiters[i] != w {
		return
	}
	if u.Created > w.rev {
		m.missed.Add(i) // the queue is read once more
	}
	for _, e := range u.Events {
		if e.ModRevision > w.rev {
			w.show(e.Key, seen{e.ModRevision, e.Deleted})
		}
	}
	if u.Compacted > 0 || u.Err != nil {
		m.readLater(i, w)
		return
	}
	m.reportWaiters(i, w)
}

// readLater has a queue read once more, after a while.
func (m *member) readLater(i int, w *waiters) {
	time.AfterFunc(backoff.Jitter(readAgain), func() {
		m.post(func() {
			if m.waiters[i] == w {
				m.forget(i) // follow begins anew
			}
		})
	})
}

// reportWaiters reports to the Worker whether a worker other than this one waits.
func (m *member) reportWaiters(i int, w *waiters) {
	h := m.holds[i]
	if h == nil {
		return
	}
	waits := false
	for key, known := range w.keys {
		waits = waits || !known.gone && !m.isOwn(key)
	}
	m.w.Waits(i, waits)
}

// isOwn reports whether a key of a shard's queue is on a lease of the member.
func (m *member) isOwn(key string) bool {
	_, own := m.leases[m.keys.Parse(key).Lease]
	return own
}
