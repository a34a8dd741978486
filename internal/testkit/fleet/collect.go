//go:build unix

package fleet

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// collect reads the logs and the store.
func (y *yard) collect(t testing.TB) {
	acked := map[string]map[string]bool{}
	for _, path := range y.logs {
		ops, ids, err := readLog(path)
		if os.IsNotExist(err) {
			continue // killed before it began
		}
		if err != nil {
			t.Fatal(err)
		}
		y.result.History = append(y.result.History, ops...)
		for resource, list := range ids {
			if acked[resource] == nil {
				acked[resource] = map[string]bool{}
			}
			for _, id := range list {
				acked[resource][id] = true
			}
		}
	}
	for _, o := range y.result.History {
		switch o.Outcome {
		case fencetest.Refused, fencetest.NotApplied:
			y.result.Refused++
		case fencetest.Unknown:
			y.result.Unknown++
		}
	}
	y.result.faults()
	store, err := y.fleet.Open(y.fleet.Address, y.fleet.Guard)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for resource, ids := range acked {
		y.compare(t, store, resource, maps.Clone(ids))
	}
}

// compare counts acknowledged writes that are missing.
func (y *yard) compare(t testing.TB, store Store, resource string, ids map[string]bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	y.result.Acked += len(ids)
	last := y.fleet.Issuer.Issue(resource)
	value, err := store.Read(ctx, resource, last)
	for i := 0; i < 10 && err != nil; i++ { // of a connection that was cut
		value, err = store.Read(ctx, resource, last)
	}
	if err != nil {
		t.Fatalf("the last read of %s: %v", resource, err)
	}
	for id := range strings.FieldsSeq(value) {
		delete(ids, id)
	}
	y.result.Lost += len(ids)
	for id := range ids {
		if len(y.result.Missing) < 5 {
			y.result.Missing = append(y.result.Missing, resource+" lacks "+id)
		}
	}
}

// faults counts the two kinds of faults that a single register commits. fencetest.Check, which finds
// these and others, stops at the first.
func (r *Result) faults() {
	byResource := map[string][]fencetest.Op{}
	for _, o := range r.History {
		byResource[o.Resource] = append(byResource[o.Resource], o)
	}
	for _, o := range r.History {
		// A later holder that o conflicts with.
		later := func(p fencetest.Op) bool { return p.Token > o.Token && !(p.Shared && o.Shared) }
		there := slices.ContainsFunc(byResource[o.Resource], func(p fencetest.Op) bool {
			switch o.Outcome {
			case fencetest.Refused:
				return p.Outcome != fencetest.NotApplied && p.Call < o.Return && later(p)
			default:
				return p.Outcome == fencetest.Applied && p.Return < o.Call && later(p)
			}
		})
		switch {
		case o.Outcome == fencetest.Refused && !there:
			r.Needless++
		case o.Outcome == fencetest.Applied && there:
			r.Stale++
		}
	}
}
