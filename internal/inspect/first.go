package inspect

import (
	"cmp"
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// addUnread adds keys of which only the names were read.
func (s *state) addUnread(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if key := string(kv.Key); !s.hides(key) {
			lease := kv.Lease
			if lease == 0 { // a server need not say it without the value; the name does
				_, lease = formOf(key)
			}
			p := newPosition(key, nil, kv.CreateRevision, kv.ModRevision, lease)
			p.Election = false
			s.add(p)
		}
	}
}

// readFirst reads the first keys of each queue whole. The others of an election's queue count as
// candidates too.
func (r *reader) readFirst(ctx context.Context, s *state, first int) error {
	var wanted []string
	for f, l := range s.folders {
		if l.isName {
			wanted = append(wanted, l.first(f, first)...)
		}
	}
	for batch := range slices.Chunk(wanted, batchSize) {

		if err := r.keepFormed(ctx, s, batch); err != nil {
			return err
		}

	}
	for f, l := range s.folders {
		for i, known := range l.first(f, 1) {
			if i == 0 && s.keys[known].Election {
				l.candidates(f)
			}
		}
	}
	return nil
}

// first returns the first n keys of a known form in folder f. Those of slots come first, as in a
// NamedQueue.
func (l *folder) first(f string, n int) (names []string) {
	var slots, rest []*entry
	for _, e := range l.queue {
		switch {
		case e.home != f || e.Form == Foreign:
		case e.HasSlot():
			slots = append(slots, e)
		default:
			rest = append(rest, e)
		}
	}
	slices.SortStableFunc(slots, func(a, b *entry) int { return cmp.Compare(a.Slot, b.Slot) })
	all := append(slots, rest...)
	for _, e := range all[:min(n, len(all))] {
		names = append(names, e.Key)
	}
	return names
}

// candidates makes the keys in folder f that were not read candidates.
func (l *folder) candidates(f string) {
	for _, e := range l.queue {
		if e.home == f && e.Form != Foreign && e.Mode == ModeExclusive && e.Size == 0 && e.Owner == "" {
			e.Election = true
		}
	}
}
