package watcher

import (
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// An Event is one change of one key.
type Event struct {
	Key     string
	Value   []byte // what was put; nil where the key was deleted, but see [Hub.WatchDeletion]. It must not be changed.
	Deleted bool   // the key was deleted, by a request or with its lease

	CreateRevision int64 // 0 where the key was deleted
	ModRevision    int64 // of this change
	Lease          int64 // 0: none, or the key was deleted
}

// advance takes the events of an answer, after those held back from the answers before, whose fragments they
// continue. It returns what is to be delivered and what is to be held back now: where more fragments
// are to come, the last revision, which may not be complete.
func advance(sp span, next int64, held, evs []*mvccpb.Event, more bool) (out []Event, rest []*mvccpb.Event) {
	if len(held) > 0 {
		evs = append(held, evs...)
	}
	if more {
		evs, rest = whole(evs)
	}
	return sift(sp, next, evs), rest
}

// sift makes of what a server sent for a watch of sp, whose lowest undelivered revision is next, what is
// to be delivered: in order, each event once, nothing below next, nothing outside sp.
//
// Order is restored within evs only; what comes in a later answer and is older than what was
// delivered is taken for a repetition.
func sift(sp span, next int64, evs []*mvccpb.Event) []Event {
	evs = inOrder(evs)
	var out []Event
	var seen keys
	for _, e := range evs {
		kv := e.GetKv()
		if kv == nil || kv.ModRevision < next || !sp.covers(kv.Key) || sp.deletions && e.Type != mvccpb.Event_DELETE || seen.has(kv.ModRevision, kv.Key) {
			continue
		}
		if out == nil {
			out = make([]Event, 0, len(evs))
		}
		out = append(out, event(sp, e))
		seen.add(out)
	}
	return out
}

// keys is the keys of the events of one revision. A few are compared, many, as the end of a lease with many keys
// brings, are put into a map. etcd changes a key at most once in a revision.
type keys struct {
	revision int64
	few      []Event
	many     map[string]struct{}
}

const fewKeys = 16

func (k *keys) has(revision int64, key []byte) bool {
	if revision != k.revision {
		*k = keys{revision: revision}
		return false
	}
	if k.many != nil {
		_, ok := k.many[string(key)]
		return ok
	}
	return slices.ContainsFunc(k.few, func(e Event) bool { return e.Key == string(key) })
}

// add adds the last of out, which is of the present revision.
func (k *keys) add(out []Event) {
	last := out[len(out)-1]
	if k.many != nil {
		k.many[last.Key] = struct{}{}
		return
	}
	k.few = out[len(out)-len(k.few)-1:]
	if len(k.few) > fewKeys {
		k.many = make(map[string]struct{}, 2*fewKeys)
		for _, e := range k.few {
			k.many[e.Key] = struct{}{}
		}
	}
}

func event(sp span, e *mvccpb.Event) Event {
	kv := e.Kv
	out := Event{
		Key:            sp.key, // no copy where only one key is watched
		Deleted:        e.Type == mvccpb.Event_DELETE,
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Lease:          kv.Lease,
	}
	if sp.end != "" {
		out.Key = string(kv.Key)
	}
	switch {
	case !out.Deleted:
		out.Value = kv.Value
	case sp.deletions:
		out.Value = e.PrevKv.GetValue()
	}
	return out
}

// whole splits the events of an answer of which more is to come: rest is the last revision's, which may
// not be complete.
func whole(evs []*mvccpb.Event) (ready, rest []*mvccpb.Event) {
	if len(evs) == 0 {
		return nil, nil
	}
	evs = inOrder(evs)
	last := revisionOf(evs[len(evs)-1])
	cut, _ := slices.BinarySearchFunc(evs, last, func(e *mvccpb.Event, r int64) int {
		return cmp.Compare(revisionOf(e), r)
	})
	return evs[:cut:cut], evs[cut:]
}

// inOrder sorts by revision what is not sorted; events of one revision keep their order.
func inOrder(evs []*mvccpb.Event) []*mvccpb.Event {
	byRevision := func(a, b *mvccpb.Event) int { return cmp.Compare(revisionOf(a), revisionOf(b)) }
	if !slices.IsSortedFunc(evs, byRevision) {
		slices.SortStableFunc(evs, byRevision)
	}
	return evs
}

func revisionOf(e *mvccpb.Event) int64 { return e.GetKv().GetModRevision() }
