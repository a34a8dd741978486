package watcher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// maxSpan bounds the length of a range's two ends together. It keeps a creation well below the
// size that a server accepts in one message, because a longer one would end the stream, and
// below what gRPC buffers for one stream.
const maxSpan = 32 << 10

// everything, as the end of a range, means all keys starting at its beginning.
const everything = "\x00"

var (
	errEmptySpan = errors.New("the range is empty: its end is not above its beginning")
	errLongSpan  = fmt.Errorf("the range is longer than %d bytes", maxSpan)
)

// span is the range of watched keys: [key, end), or key alone if end is empty.
type span struct{ key, end string }

func newSpan(key, end string) span {
	if key == "" {
		key = "\x00" // the smallest key, as in etcd
	}
	return span{key: key, end: end}
}

func (s span) check() error {
	switch {
	case len(s.key)+len(s.end) > maxSpan:
		return errLongSpan
	case s.end != "" && s.end != everything && s.end <= s.key:
		return errEmptySpan
	}
	return nil
}

// covers reports whether key is in the span.
func (s span) covers(key []byte) bool {
	switch s.end {
	case "":
		return string(key) == s.key
	case everything:
		return string(key) >= s.key
	}
	return string(key) >= s.key && string(key) < s.end
}

// An Event is one change of one key.
type Event struct {
	Key     string
	Value   []byte // what was put, or nil if the key was deleted; must not be changed
	Deleted bool   // the key was deleted, by a request or with its lease

	CreateRevision int64 // 0 if the key was deleted
	ModRevision    int64 // of this change
	Lease          int64 // 0 if there is none, or the key was deleted
}

// sift selects what to deliver from evs, which a server sent for a creation of sp. It returns each
// event once, in the order of revisions and of keys within one, and leaves out those below next, those
// outside sp, and, if deletions is set, puts.
//
// An event in a later answer that is older than what was delivered counts as a repetition.
func sift(sp span, deletions bool, next int64, evs []*mvccpb.Event) []Event {
	if !slices.IsSortedFunc(evs, compare) {
		slices.SortStableFunc(evs, compare)
	}
	var out []Event
	for i, e := range evs {
		if e == nil || e.Kv == nil {
			continue
		}
		kv := e.Kv
		if kv.ModRevision < next || !sp.covers(kv.Key) || deletions && e.Type != etcdapi.EventDelete {
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
		Deleted:        e.Type == etcdapi.EventDelete,
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

func compare(a, b *mvccpb.Event) int {
	aRev, aKey := position(a)
	bRev, bKey := position(b)
	if c := cmp.Compare(aRev, bRev); c != 0 {
		return c
	}
	return bytes.Compare(aKey, bKey)
}

// position returns what events are sorted by.
func position(e *mvccpb.Event) (modRevision int64, key []byte) {
	if e == nil || e.Kv == nil {
		return 0, nil
	}
	return e.Kv.ModRevision, e.Kv.Key
}
