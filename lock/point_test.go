package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// Hazard A1, rules A2, T3: whatever ends the acquisition while one of Acquire's requests is on its
// way, Acquire does not return a Held. If the answer was already on its way back, the loss is
// reported.
// rule: A2
func TestNoAcquireSucceedsWithoutItsKeyAtAnyAwaitPoint(t *testing.T) {
	for _, contended := range []bool{false, true} {
		for _, request := range map[bool][]string{false: {"enqueue"}, true: {"enqueue", "confirm position"}}[contended] {
			for _, answer := range []bool{false, true} {
				for _, b := range blows {
					if b.cause == pawl.ErrClusterChanged {
						continue // no request is answered by that cluster
					}
					t.Run(fmt.Sprintf("contended %v/%s/on its way back %v/%s", contended, request, answer, b.name), func(t *testing.T) {
						inBubble(t, func(w *fixture) { awaitPoint(w, contended, request, answer, b) })
					})
				}
			}
		}
	}
}

func awaitPoint(w *fixture, contended bool, request string, answer bool, b blow) {
	c := w.client(pawl.Config{})
	s, err := c.Session(w.Context())
	require.NoError(w, err)
	var holder *lock.Held
	if contended {
		holder = w.acquire(w.session())
	}
	rule := etcdfake.Rule{Op: request, Times: 1, Delay: time.Second}
	if answer {
		rule.Delay, rule.HoldAnswer = 0, time.Second
	}
	f := w.f.Inject(rule)
	a := w.acquiring(w.Context(), mutex(s))
	if contended {
		time.Sleep(10 * time.Millisecond)
		require.NoError(w, holder.Release(w.Context()))
	}
	time.Sleep(500 * time.Millisecond)
	require.Equal(w, 1, f.Hits())
	own := fmt.Sprintf("name/%x-1", s.ID())
	if there := w.f.Get(own) != nil; !there && strings.HasPrefix(b.name, "own key") {
		return // nothing to strike yet, because the enqueue is on its way
	}
	b.strike(w, c, s, own)
	<-a.done
	if !answer && a.err == nil {
		w.Errorf("held, though %s before the request arrived", b.name)
	}
	if a.err != nil {
		w.oneCause(b.cause, a.err)
		assert.NotErrorIs(w, a.err, lock.ErrLost, "it never held")
		return
	}
	noticed, cancel := context.WithTimeout(context.Background(), session.ArmDelay+100*time.Millisecond)
	defer cancel()
	select {
	case <-a.h.Done():
	case <-noticed.Done():
		w.Error("held, and its loss was not reported")
	}
	w.lostBy(b.cause, a.h)
}
