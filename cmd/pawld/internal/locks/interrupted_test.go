package locks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A takeover is interrupted while it waits for each of its requests in turn, and while etcd is out of space: the
// next one takes over all of it.
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
			require.Equal(w, table.Held, a.State)
			held[id] = a.Lock
		}
		return d.left(), held
	}
	check := func(w *fixture, left Saved, held map[string]Lock) {
		next := w.daemon()
		taken, err := next.Resume(w.Context(), left)
		require.NoError(w, err)
		require.Equal(w, len(held), taken)
		time.Sleep(time.Second) // what a takeover leaves to be removed is
		for _, l := range next.renew("a", 0) {
			assert.Equal(w, table.Held, l.State, "%v", l.Why)
			assert.Equal(w, held[l.Ref.Request].Token, l.Token)
		}
	}
	interrupt := func(w *fixture, saved Saved) error {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		d := w.daemon()
		time.AfterFunc(time.Second, cancel)
		_, err := d.Resume(ctx, saved)
		_ = d.client.Close()
		return err
	}
	used := 0
	for i := range 30 {
		inBubble(t, func(w *fixture) {
			saved, held := leave(w)
			synctest.Wait()
			key := keys.SessionKey("", w.f.Get(held["lock"].Keys[0]).Lease)
			was := w.f.Get(key).ModRevision
			hung := w.f.Inject(etcdfake.Rule{Skip: i, Times: 1, HoldAnswer: 2 * time.Second})
			begin := time.Now()
			err := interrupt(w, saved)
			hung.Lift()
			assert.Less(w, time.Since(begin), time.Second+interruptedWait+time.Second)
			var interrupted *Interrupted
			if !errors.As(err, &interrupted) {
				require.NoError(w, err)
				return // it was not held up
			}
			require.Equal(w, w.f.Get(key).ModRevision != was, interrupted.Own, "another process cannot use a Handle that was used")
			if interrupted.Own {
				used++
				text, err := interrupted.Left.Handle.MarshalText()
				require.NoError(w, err)
				left, err := detached.Parse(string(text))
				require.NoError(w, err)
				assert.Empty(w, left.Forfeit, "what is released later is released by its client")
				assert.Empty(w, left.Unsettled)
			}
			check(w, interrupted.Left, held)
		})
	}
	assert.Greater(t, used, 2)
	inBubble(t, func(w *fixture) { // one lock is lost when the other makes it wait
		saved, held := leave(w)
		key := held["lock"].Keys[0]
		w.f.Put(key, "x", w.f.Get(key).Lease)
		w.f.Inject(etcdfake.Rule{Match: about("term"), Times: 1, HoldAnswer: 2 * time.Second})
		var interrupted *Interrupted
		require.ErrorAs(w, interrupt(w, saved), &interrupted)
		require.True(w, interrupted.Own)
		next := w.daemon()
		taken, err := next.Resume(w.Context(), interrupted.Left)
		require.NoError(w, err)
		assert.Equal(w, len(held)-1, taken)
		time.Sleep(2 * time.Second)
		assert.NotNil(w, w.f.Get(key), "its client believes in it")
	})
	inBubble(t, func(w *fixture) {
		saved, held := leave(w)
		w.f.SetNoSpace(true)
		var interrupted *Interrupted
		require.ErrorAs(w, interrupt(w, saved), &interrupted)
		assert.False(w, interrupted.Own)
		assert.Equal(w, saved, interrupted.Left)
		w.f.SetNoSpace(false)
		check(w, interrupted.Left, held)
	})
}
