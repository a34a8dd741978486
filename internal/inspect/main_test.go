package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// fixture is a cluster in memory, in a bubble.
type fixture struct{ *inmemory.Fixture }

func inBubble(t *testing.T, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&fixture{inmemory.New(t, etcdfake.Options{Members: 3})})
	})
}

// Holds acquires name.
func (w *fixture) Holds(s *pawl.Session, name string) *lock.Held {
	w.Helper()
	h, err := lock.New(s, name, lock.Options{}).Acquire(w.Context())
	require.NoError(w, err)
	return h
}

// waits enqueues behind others, and returns when it waits.
func (w *fixture) waits(ctx context.Context, s *pawl.Session, name string) (held chan *lock.Held) {
	held = make(chan *lock.Held, 1)
	go func() { // ends with the acquisition, or ctx
		h, err := lock.New(s, name, lock.Options{}).Acquire(ctx)
		if err == nil {
			held <- h
		}
		close(held)
	}()
	synctest.Wait()
	return held
}

func (w *fixture) leads(s *pawl.Session, name, value string) *elect.Term {
	w.Helper()
	t, err := elect.New(s, name, elect.Options{}).Campaign(w.Context(), []byte(value))
	require.NoError(w, err)
	return t
}

func (w *fixture) read(scope inspect.Scope) *inspect.Snapshot {
	w.Helper()
	s, err := inspect.Read(w.Context(), w.Client(), scope)
	require.NoError(w, err)
	return s
}

func (w *fixture) follow(scope inspect.Scope) *follower {
	w.Helper()
	f, err := inspect.Follow(w.Context(), w.Client(), scope)
	require.NoError(w, err)
	w.Cleanup(f.Close)
	return &follower{w, f}
}

// follower checks the events of a Follower.
type follower struct {
	w *fixture
	f *inspect.Follower
}

// reports requires exactly these events next, as "name kind (cause) by".
func (f *follower) reports(want ...string) (events []inspect.Event) {
	f.w.Helper()
	var said []string
	for len(said) < len(want) {
		evs, err := f.f.Next(f.w.Context())
		require.NoError(f.w, err)
		events = append(events, evs...)
		for _, e := range evs {
			said = append(said, saying(e))
		}
	}
	require.Equal(f.w, want, said)
	return events
}

func saying(e inspect.Event) string {
	s := e.Name + " " + e.Kind.String()
	if e.Cause != inspect.NoCause {
		s += " (" + e.Cause.String() + ")"
	}
	if e.By != "" {
		s += " by " + e.By
	}
	if e.Unsure {
		s += "?"
	}
	return s
}

// sketch is the queues of a snapshot, for comparison.
func sketch(s *inspect.Snapshot) (out []string) {
	for _, l := range s.Queues {
		var queue []string
		for _, p := range l.Queue {
			who := p.Owner
			if p.Form != inspect.Pawl {
				who += ":" + p.Form.String()
			}
			queue = append(queue, who)
		}
		kind := "lock"
		if l.Election {
			kind = "election"
		}
		if l.EtcdLayout {
			kind += " etcd"
		}
		out = append(out, fmt.Sprintf("%s %s: %s", kind, l.Name, strings.Join(queue, " ")))
	}
	return out
}
