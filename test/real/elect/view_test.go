package elect_test

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
	"github.com/stretchr/testify/require"
)

// A viewer ranges over Observe in a separate goroutine.
type viewer struct {
	mu    sync.Mutex
	all   []elect.Leader
	err   error
	pause time.Duration // between two events
	over  chan struct{}
}

func view(ctx context.Context, c *pawl.Client, name string, pause time.Duration) *viewer {
	v := &viewer{pause: pause, over: make(chan struct{})}
	go func() { // ends with ctx
		defer close(v.over)
		for l, err := range elect.Observe(ctx, c, name, elect.Options{}) {
			v.mu.Lock()
			if err != nil {
				v.err = err
			} else {
				v.all = append(v.all, l)
			}
			v.mu.Unlock()
			time.Sleep(pause)
		}
	}()
	return v
}

func (v *viewer) seen() []elect.Leader {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]elect.Leader(nil), v.all...)
}

// said is what was seen, for reading: the values, "-" for nobody.
func (v *viewer) said() string {
	var out []string
	for _, l := range v.seen() {
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

// truth is who led, starting at each revision, from the history of a whole prefix.
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

// requireTrue checks what was seen against the ground truth.
func requireTrue(t *testing.T, seen []elect.Leader, history []etcdfake.Change, prefix string) {
	t.Helper()
	states := truth(history, prefix)
	last := state{}
	for i, l := range seen {
		n, _ := slices.BinarySearchFunc(states, l.Revision+1, func(s state, rev int64) int { return cmp.Compare(s.rev, rev) })
		want := states[n-1] // the latest one that is not later
		want.rev = 0
		got := state{0, l.Key, int64(l.Token), want.mod, string(l.Value)}
		require.Equal(t, want, got, "event %d, at revision %d", i, l.Revision)
		if i > 0 {
			require.Greater(t, l.Revision, seen[i-1].Revision)
			require.NotEqual(t, last, want, "event %d has nothing new", i)
		}
		last = want
	}
}
