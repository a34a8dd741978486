package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A4: a slot that was freed while the watch was down, and compacted, is found at once; and after
// it the slots are watched again.
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

// T, SM1: a holder whose lease is revoked does not hold any more, and its slot goes on.
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

// SM5: a lock that waits for a foreign key among a semaphore's does not keep a semaphore's name from
// being refused, and holds in turn.
func TestALockBesideAForeignKeyAmongASemaphores(t *testing.T) {
	for _, mode := range []struct{ shared, etcd bool }{{}, {shared: true}, {etcd: true}} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			w.f.Put("name/quux/1", "", 0)
			w.shared, w.etcd = mode.shared, mode.etcd
			a := w.waiting(w.session())
			w.limit, w.shared, w.etcd = 1, false, false
			_, err := w.take(w.Context(), w.session(), Request{})
			assert.ErrorIs(w, err, ErrKind)
			_, err = w.take(w.Context(), w.session(), Request{Try: true})
			assert.ErrorIs(w, err, ErrKind)
			w.limit = 0
			w.f.Delete("name/quux/1")
			w.release(a.won())
			w.clear()
		})
	}
}

// SM5: in etcd's layout, where names nest, a lock's key that only looks like a semaphore's is
// waited for like any other key. It costs two requests: the enqueue that it refuses, and the
// read that shows why.
func TestALockWaitsForANestedNameAmongASemaphoresKeys(t *testing.T) {
	for nested, refused := range map[string]int{"name/quux": 2, "name/s0.1": 2, "name/r": 2, "name/b": 0} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			q, err := New("", nested, true)
			require.NoError(w, err)
			w.etcd = true
			one, two, three := w.session(), w.session(), w.session()
			txns := func(f func()) int {
				synctest.Wait()
				before := w.f.Counts()
				f()
				synctest.Wait()
				return w.f.Counts().Since(before).Received["Txn"]
			}
			c, err := Acquire(w.Context(), one, q, Request{})
			require.NoError(w, err)
			var a, set *acquireCall
			assert.Equal(w, 1+refused, txns(func() { a = w.waiting(two) }), nested)
			w.set = []string{"name2"}
			assert.Equal(w, 1+refused, txns(func() { set = w.waiting(three) }), nested)
			require.NoError(w, c.Release(w.Context(), errGivenBack))
			w.release(a.won())
			w.release(set.won())
			w.set = nil
			assert.Equal(w, 2, txns(func() { w.release(w.acquire(two)) }), "without it")
			w.clear()
		})
	}
}
