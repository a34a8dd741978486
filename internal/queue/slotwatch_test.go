package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A4: a slot that was freed while the watch was down, and compacted, is found at once. Afterwards
// the slots are watched again.
func TestASlotFreedInACompactionIsFound(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		one, two := w.permit(2).won(), w.permit(2).won()
		s := w.session()
		a := w.permitOn(s, 2)
		watches := w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true, Hang: true})
		w.f.Cut()
		w.f.Heal()
		time.Sleep(500 * time.Millisecond)
		w.release(one)
		w.f.Put("other", "", 0)
		w.f.Compact(w.f.Revision())
		watches.Lift()
		began := time.Now()
		c := a.won()
		t.Logf("after %v", time.Since(began))
		assert.LessOrEqual(w, time.Since(began), s.TTL()/2+time.Second)
		b := w.permit(2)
		assert.False(w, isClosed(b.done))
		began = time.Now()
		w.release(two)
		d := b.won()
		assert.Less(w, time.Since(began), time.Second)
		w.release(c)
		w.release(d)
		w.clear()
	})
}

// T, SM1: a holder whose lease is revoked no longer holds, and the next one gets its slot.
func TestARevokedHoldersSlotGoesOn(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		p := w.permitOn(s, 1).won()
		waits := w.permit(1)
		behind := w.permitOn(s, 1)
		w.f.Revoke(s.ID())
		synctest.Wait()
		c := waits.won()
		w.oneCause(errRevoked, p.Err())
		w.oneCause(errRevoked, behind.failed())
		w.release(c)
		w.clear()
	})
}
