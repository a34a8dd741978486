package lock_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func TestQueueSaysWhoHoldsAndWhoWaitsInOrder(t *testing.T) {
	inBubble(t, func(w *fixture) {
		session := func(owner string) *pawl.Session {
			s, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Owner: owner})
			require.NoError(w, err)
			return s
		}
		ann, bob, eve := session("ann"), session("bob"), session("eve")
		began := time.Now()
		h := w.acquire(ann)
		time.Sleep(time.Second)
		b := w.waiting(bob)
		foreign := w.f.Put("name/stray", "", 0)
		e := w.campaigning(eve)
		other := w.acquireName(ann, "nam") // of another name

		for _, s := range []pawl.Sessions{ann, w.spare} {
			before := w.f.Counts()
			q, err := lock.New(s, "name", lock.Options{}).Queue(w.Context())
			require.NoError(w, err)
			assert.Zero(w, w.f.Counts().Since(before).Received["LeaseGrant"], "a client is asked for no session")
			require.Len(w, q, 4)
			host, err := os.Hostname()
			require.NoError(w, err)
			assert.Equal(w, lock.Queued{
				Key: h.Key(), Token: h.Token(), Holds: true, Owner: "ann", Host: host, PID: os.Getpid(), Since: began.UTC(), Lease: ann.ID(),
				Mode: lock.ModeExclusive, Slot: -1,
			}, q[0])
			assert.Equal(w, []any{"bob", bob.ID(), lock.ModeExclusive, false}, []any{q[1].Owner, q[1].Lease, q[1].Mode, q[1].Holds})
			assert.Equal(w, time.Second, q[1].Since.Sub(began))
			assert.Equal(w, []any{"name/stray", foreign, lock.ModeForeign}, []any{q[2].Key, int64(q[2].Token), q[2].Mode})
			assert.Equal(w, []any{"eve", eve.ID(), lock.ModeExclusive}, []any{q[3].Owner, q[3].Lease, q[3].Mode}, "a candidate")
			same, err := elect.New(s, "name", elect.Options{}).Queue(w.Context())
			require.NoError(w, err)
			assert.Equal(w, q, same, "one queue")
		}
		w.release(h)
		w.release(b.won())
		w.f.Delete("name/stray")
		<-e
		w.release(other)
	})
}

// campaigning is closed when s has led and resigned.
func (w *fixture) campaigning(s *pawl.Session) <-chan struct{} {
	done := make(chan struct{})
	go func() { // ends when it has led
		defer close(done)
		t, err := elect.New(s, "name", elect.Options{}).Campaign(w.Context(), nil)
		if assert.NoError(w, err) {
			assert.NoError(w, t.Resign(w.Context()))
		}
	}()
	synctest.Wait()
	return done
}

func TestQueueOfANameThatNobodyWantsIsEmpty(t *testing.T) {
	inBubble(t, func(w *fixture) {
		q, err := lock.New(w.spare, "name", lock.Options{}).Queue(w.Context())
		require.NoError(w, err)
		assert.Empty(w, q)
		_, err = lock.New(w.spare, "", lock.Options{}).Queue(w.Context())
		assert.ErrorContains(w, err, `lock: queue "": empty name`)
		_, err = lock.New(&pawl.Session{}, "name", lock.Options{}).Queue(w.Context())
		assert.ErrorContains(w, err, "nil session")
		w.f.BlackHole()
		ctx := over(w.Context())
		_, err = lock.New(w.spare, "name", lock.Options{}).Queue(ctx)
		assert.ErrorIs(w, err, ctx.Err())
	})
}

func TestQueueSaysWhoSharesIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		a, b := w.session(), w.session()
		r1, r2 := w.acquireShared(a), w.acquireShared(b)
		writer := w.waiting(w.session())
		r3 := w.sharing(w.Context(), mutex(a))
		q, err := mutex(b).Queue(w.Context())
		require.NoError(w, err)
		var got []any
		for _, p := range q {
			got = append(got, p.Mode, p.Holds)
		}
		assert.Equal(w, []any{lock.ModeShared, true, lock.ModeShared, true, lock.ModeExclusive, false, lock.ModeShared, false}, got)
		w.release(r1)
		w.release(r2)
		w.release(writer.won())
		<-r3.done
		require.NoError(w, r3.err)
		w.release(r3.h)
	})
}

// In etcd's layout every key below the name is waited for, and shown.
func TestQueueInEtcdsLayoutShowsWhatBlocks(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.f.Put("a/b/1f", "", 0)
		s := w.session()
		m := lock.New(s, "a", lock.Options{EtcdLayout: true})
		a := w.acquiring(w.Context(), m)
		q, err := m.Queue(w.Context())
		require.NoError(w, err)
		require.Len(w, q, 2)
		assert.Equal(w, []any{"a/b/1f", lock.ModeForeign}, []any{q[0].Key, q[0].Mode})
		assert.Equal(w, []any{s.ID(), lock.ModeExclusive}, []any{q[1].Lease, q[1].Mode})
		assert.NotEmpty(w, q[1].Owner)
		w.f.Delete("a/b/1f")
		w.release(a.won())
	})
}
