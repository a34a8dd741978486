// Package leaderview collects what elect.Observe yields, and compares it with the history of a cluster.
package leaderview

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A Viewer ranges over Observe in a goroutine.
type Viewer struct {
	Ended chan struct{} // closed when Observe has ended
	Err   error         // with which Observe ended; read after Ended

	mu  sync.Mutex
	all []elect.Leader
}

// Begin observes the election name until ctx ends, with a pause between two events.
func Begin(ctx context.Context, c *pawl.Client, name string, pause time.Duration) *Viewer {
	v := &Viewer{Ended: make(chan struct{})}
	go func() { // ends with ctx
		defer close(v.Ended)
		for l, err := range elect.Observe(ctx, c, name, elect.Options{}) {
			if err != nil {
				v.Err = err
			} else {
				v.mu.Lock()
				v.all = append(v.all, l)
				v.mu.Unlock()
			}
			time.Sleep(pause)
		}
	}()
	return v
}

// Seen returns what was observed so far.
func (v *Viewer) Seen() []elect.Leader {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.all)
}

// Said returns what was observed, for people to read: the values, and "-" for nobody.
func (v *Viewer) Said() string {
	var out []string
	for _, l := range v.Seen() {
		if l.Token == 0 {
			out = append(out, "-")
			continue
		}
		out = append(out, string(l.Value))
	}
	return strings.Join(out, " ")
}

// state is who led, starting at one revision.
type state struct {
	rev         int64
	key         string
	create, mod int64
	value       string
}

// truth returns who led after each revision, from the history of a whole prefix.
func truth(history []etcdfake.Change, prefix string) []state {
	states := []state{{}}
	alive := map[string]state{}
	for i, c := range history {
		if strings.HasPrefix(c.Key, prefix) {
			if c.Deleted {
				delete(alive, c.Key)
			} else {
				alive[c.Key] = state{0, c.Key, c.CreateRevision, c.Revision, string(c.Value)}
			}
		}
		if i+1 < len(history) && history[i+1].Revision == c.Revision {
			continue
		}
		var first state
		for _, s := range alive {
			if first.create == 0 || s.create < first.create || s.create == first.create && s.key < first.key {
				first = s
			}
		}
		first.rev = c.Revision
		states = append(states, first)
	}
	return states
}

// RequireTrue fails t unless each of the events seen is who led at its revision, and is something new.
func RequireTrue(t *testing.T, seen []elect.Leader, history []etcdfake.Change, prefix string) {
	t.Helper()
	states := truth(history, prefix)
	last := state{}
	for i, l := range seen {
		n, _ := slices.BinarySearchFunc(states, l.Revision+1, func(s state, rev int64) int { return cmp.Compare(s.rev, rev) })
		want := states[n-1] // the latest one that is not later
		want.rev = 0
		got := state{0, l.Key, int64(l.Token), want.mod, string(l.Value)}
		if want != got {
			t.Fatalf("event %d, at revision %d: %+v, want %+v", i, l.Revision, got, want)
		}
		if i > 0 && (l.Revision <= seen[i-1].Revision || want == last) {
			t.Fatalf("event %d, at revision %d, has nothing new: %+v", i, l.Revision, got)
		}
		last = want
	}
}
