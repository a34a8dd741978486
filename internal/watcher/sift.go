package watcher

import (
	"bytes"
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// An Event is one change of one key.
type Event struct {
	Key     string
	Value   []byte // what was put; nil if the key was deleted. It must not be changed.
	Deleted bool   // the key was deleted, by a request or with its lease

	CreateRevision int64 // 0 if the key was deleted
	ModRevision    int64 // of this change
	Lease          int64 // 0 if there is none, or the key was deleted
}

// advance processes the events of an answer, after those held back from the answers before,
// whose fragments they continue. It returns what to deliver and what to hold back now: if more
// fragments follow, the last revision, which may not be complete.
func advance(sp span, deletions bool, next int64, held, evs []*mvccpb.Event, more bool) (out []Event, rest []*mvccpb.Event) {
	if len(held) > 0 {
		evs = append(held, evs...)
	}
	evs = inOrder(evs)
	if more && len(evs) > 0 {
		last := revisionOf(evs[len(evs)-1])
		cut, _ := slices.BinarySearchFunc(evs, last, func(e *mvccpb.Event, r int64) int {
			return cmp.Compare(revisionOf(e), r)
		})
		evs, rest = evs[:cut:cut], evs[cut:]
	}
	return sift(sp, deletions, next, evs), rest
}

// sift selects from evs, which a server sent for a creation of sp, in order, what to deliver:
// each event once, nothing below next, nothing outside sp, and, if deletions is set, only
// deletions.
//
// An event in a later answer that is older than what was delivered counts as a repetition.
func sift(sp span, deletions bool, next int64, evs []*mvccpb.Event) []Event {
	var out []Event
	for i, e := range evs {
		kv := e.GetKv()
		if kv == nil || kv.ModRevision < next || !sp.covers(kv.Key) || deletions && e.Type != mvccpb.Event_DELETE {
			continue
		}
		if i > 0 && compare(evs[i-1], e) == 0 { // a key changes at most once in a revision
			continue
		}
		if out == nil {
			out = make([]Event, 0, len(evs)-i)
		}
		out = append(out, event(sp, e))
	}
	return out
}

func event(sp span, e *mvccpb.Event) Event {
	kv := e.Kv
	out := Event{
		Key:            sp.key, // no copy if only one key is watched
		Deleted:        e.Type == mvccpb.Event_DELETE,
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Lease:          kv.Lease,
	}
	if sp.end != "" {
		out.Key = string(kv.Key)
	}
	if !out.Deleted {
		out.Value = kv.Value
	}
	return out
}

// inOrder returns evs sorted by revision, and by key within one.
func inOrder(evs []*mvccpb.Event) []*mvccpb.Event {
	if !slices.IsSortedFunc(evs, compare) {
		slices.SortStableFunc(evs, compare)
	}
	return evs
}

func compare(a, b *mvccpb.Event) int {
	if c := cmp.Compare(revisionOf(a), revisionOf(b)); c != 0 {
		return c
	}
	return bytes.Compare(a.GetKv().GetKey(), b.GetKv().GetKey())
}

func revisionOf(e *mvccpb.Event) int64 { return e.GetKv().GetModRevision() }
