package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A takeover is interrupted while it waits for each of its requests in turn, which has been applied
// or will be later, and while etcd is out of space: the next one takes over all of it.
func TestAnInterruptedTakeoverLeavesEverythingToTheNextOne(t *testing.T) {
	leave := func(w *fixture) (saved Saved, held map[string]Lock) {
		d := w.daemon()
		held = map[string]Lock{}
		for id, want := range map[string]Want{
			"lock": exclusive("lock"), "set": setOf(nil, "one", "two"),
			"term":   {Names: []string{"term"}, Modes: []Mode{Election}, Value: []byte("v")},
			"permit": {Names: []string{"permit"}, Modes: []Mode{Semaphore}, Limit: 2},
		} {
			a := d.acquire("a", id, time.Second, want)
			require.Equal(w, registry.Held, a.State)
			held[id] = a.Lock
		}
		return d.left().Claimed(), held
	}
	check := func(w *fixture, left Saved, held map[string]Lock) {
		next := w.daemon()
		taken, err := next.Resume(w.Context(), left)
		require.NoError(w, err)
		require.Equal(w, len(held), taken)
		stop := next.keep("a")
		time.Sleep(20 * time.Second) // what a takeover leaves to be removed is
		stop()
		for _, l := range next.renew("a", 0) {
			assert.Equal(w, registry.Held, l.State, "%v", l.Why)
			assert.Equal(w, held[l.Ref.Request].Token, l.Token)
		}
	}
	interrupt := func(w *fixture, saved Saved) error {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		d := w.daemon()
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		_, err := d.Resume(ctx, saved)
		assert.LessOrEqual(w, time.Since(begin), time.Second+100*time.Millisecond)
		_ = d.client.Close()
		return err
	}
	used := 0
	try := func(rule etcdfake.Rule) {
		inBubble(t, func(w *fixture) {
			saved, held := leave(w)
			synctest.Wait()
			key := keys.SessionKey("", w.f.Get(held["lock"].Keys[0]).Lease)
			was := w.f.Get(key).ModRevision
			hung := w.f.Inject(rule)
			err := interrupt(w, saved)
			hung.Lift()
			if err == nil {
				return // it was not held up
			}
			require.ErrorIs(w, err, ErrInterrupted)
			if w.f.Get(key).ModRevision != was {
				used++
			}
			check(w, saved, held)
		})
	}
	for i := range 30 {
		try(etcdfake.Rule{Skip: i, Times: 1, HoldAnswer: 2 * time.Second})
	}
	require.Greater(t, used, 2, "the session key was rewritten")
	used = 0
	try(etcdfake.Rule{Op: "take over session", Delay: 3 * time.Second})
	require.Zero(t, used, "it is rewritten while the next one takes over, or later")
	inBubble(t, func(w *fixture) { // one lock is lost when the other makes it wait
		saved, held := leave(w)
		key := held["lock"].Keys[0]
		w.f.Put(key, "x", w.f.Get(key).Lease)
		w.f.Inject(etcdfake.Rule{Match: about("term"), Times: 1, HoldAnswer: 2 * time.Second})
		require.ErrorIs(w, interrupt(w, saved), ErrInterrupted)
		next := w.daemon()
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, len(held)-1, taken)
		time.Sleep(2 * time.Second)
		assert.NotNil(w, w.f.Get(key), "its client believes in it")
	})
	inBubble(t, func(w *fixture) {
		saved, held := leave(w)
		w.f.SetNoSpace(true)
		require.ErrorIs(w, interrupt(w, saved), ErrInterrupted)
		w.f.SetNoSpace(false)
		check(w, saved, held)
	})
}
