package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// in returns the tests' queue in one mode.
func (w *fixture) in(shared bool) Queue {
	q := w.queue()
	q.Shared = shared
	return q
}

// starts begins an Acquire in one mode, and returns when it waits for something.
func (w *fixture) starts(s *session.Session, shared bool) *acquireCall {
	w.shared = shared
	return w.acquiring(w.Context(), s, Request{})
}

func (a *acquireCall) waits() bool {
	synctest.Wait()
	return !isClosed(a.done)
}

// RW1, RW2, RW3: shared ones hold together, an exclusive one alone, and all in the order in
// which they came, so that neither mode starves the other.
// rule: RW2, RW3
func TestSharedHoldTogetherAndExclusiveAloneInOneOrder(t *testing.T) {
	for _, one := range []bool{false, true} { // all of one session, or each of another
		t.Run(fmt.Sprint(one), func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				same := w.session()
				session := func() *session.Session {
					if one {
						return same
					}
					return w.session()
				}
				var all []*acquireCall
				for _, mode := range "RRWRRWW" {
					all = append(all, w.starts(session(), mode == 'R'))
				}
				at := func(i int) *acquireCall { return all[i] }
				hold := func(want ...int) {
					synctest.Wait()
					var got []int
					for i, a := range all {
						if a != nil && isClosed(a.done) {
							got = append(got, i)
							a.won()
						}
					}
					require.Equal(w, want, got)
				}
				leave := func(i int) {
					w.release(at(i).won())
					all[i] = nil
				}
				hold(0, 1)
				leave(1)
				hold(0)
				leave(0)
				hold(2)
				leave(2)
				hold(3, 4)
				leave(3)
				leave(4)
				hold(5)
				leave(5)
				hold(6)
				leave(6)
				w.clear()
			})
		})
	}
}

// RW1: every key outside the shared keys' range counts as exclusive, on either side of it.
// rule: RW1
func TestASharedOneWaitsForForeignKeysOnEitherSide(t *testing.T) {
	for _, key := range []string{"name/", "name/!x", "name/*", "name/,", "name/x", "name/qx", "name/s0", "name/~"} {
		t.Run(key, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				w.f.Put(key, "", 0)
				w.f.Put("name/+foreign", "", 0) // among the shared ones, so it conflicts with exclusive ones only
				a := w.starts(w.session(), true)
				require.True(w, a.waits())
				_, err := Acquire(w.Context(), w.session(), Request{Try: true}, w.in(true))
				require.ErrorIs(w, err, ErrBusy)
				w.f.Delete(key)
				w.release(a.won())
				w.f.Delete("name/+foreign")
				w.clear()
			})
		})
	}
}

// RW3: a shared one behind an exclusive waiter holds when that waiter gives up.
// rule: RW3
func TestASharedOneGetsInWhenTheExclusiveOneBeforeItGivesUp(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		reader := w.starts(w.session(), true).won()
		ctx, cancel := context.WithCancel(w.Context())
		w.shared = false
		writer := w.acquiring(ctx, w.session(), Request{})
		late := w.starts(w.session(), true)
		require.True(w, late.waits())
		cancel()
		require.ErrorIs(w, writer.failed(), context.Canceled)
		w.release(late.won())
		w.release(reader)
		w.clear()
	})
}

// RW4: an exclusive one hands on to an exclusive one, and never past a shared one. A shared one
// neither hands on nor reads who is behind it.
// rule: RW4
func TestSharedOnesAreNotHandedOffTo(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		var handoffs, successors atomic.Int32
		w.f.Inject(etcdfake.Rule{Op: string(isHandoff), Match: func(etcdfake.Request) bool {
			handoffs.Add(1)
			return false
		}})
		w.f.Inject(etcdfake.Rule{Match: func(q etcdfake.Request) bool {
			if t := isQuery.of(q); t != nil && len(t.Success) > 2 {
				successors.Add(1)
			}
			return false
		}})
		acquiring := func(shared bool) *acquireCall {
			s := w.session()
			w.shared = shared
			return w.acquiring(w.Context(), s, takingHandoffs(s))
		}
		first := acquiring(false)
		var all []*acquireCall
		for _, mode := range "WRRWW" { // the first of them queries, and so knows who is behind
			all = append(all, acquiring(mode == 'R'))
		}
		w.release(first.won())
		w.release(all[0].won())
		assert.Zero(w, handoffs.Load())
		r, s := all[1].won(), all[2].won()
		assert.True(w, r.now().Successors.Empty())
		assert.True(w, all[3].waits())
		w.release(r)
		assert.True(w, all[3].waits())
		w.release(s)
		w.release(all[3].won())
		w.release(all[4].won())
		assert.Equal(w, int32(1), handoffs.Load(), "from one exclusive one to the next")
		assert.Zero(w, successors.Load())
		w.clear()
	})
}

// RW5: a session that holds a shared key, or waits with one, is not alone on the name.
// rule: RW5
func TestASessionWithASharedKeyIsNotAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.release(w.starts(s, false).won()) // so that there are keys to leave out
		reader := w.starts(s, true).won()
		writer := w.starts(s, false)
		require.True(w, writer.waits(), "the session's own reader is in its way")
		another := w.starts(s, true)
		require.True(w, another.waits(), "and the session's own writer in this one's")
		w.release(reader)
		w.release(writer.won())
		w.release(another.won())
		w.clear()
		assert.True(w, w.skipsOwn(w.began(s, w.in(false))))
	})
}

// A try in shared mode is busy if an exclusive one holds or waits, and not if shared ones do. It
// writes nothing then.
func TestASharedTryIsBusyOnlyBesideExclusiveOnes(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		r := w.starts(w.session(), true).won()
		q, err := Acquire(w.Context(), w.session(), Request{Try: true}, w.in(true))
		require.NoError(w, err)
		w.held(q)
		_, err = Acquire(w.Context(), w.session(), Request{Try: true}, w.in(false))
		require.ErrorIs(w, err, ErrBusy)
		writer := w.starts(w.session(), false)
		late := w.session()
		rev := w.f.Revision()
		_, err = Acquire(w.Context(), late, Request{Try: true}, w.in(true))
		require.ErrorIs(w, err, ErrBusy)
		require.ErrorContains(w, err, "lease")
		assert.Equal(w, rev, w.f.Revision())
		w.release(r)
		w.release(q)
		w.release(writer.won())
		w.clear()
	})
}

// A shared holder's contexts carry its token as a shared one, which FromContext does not find.
// rule: RW2
func TestTheContextsOfASharedHolderCarryASharedToken(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		r := w.starts(w.session(), true).won()
		carries := func(ctx context.Context) {
			_, _, exclusive := fencing.FromContext(ctx)
			name, token, ok := fencing.FromSharedContext(ctx)
			assert.Equal(w, []any{false, true, "name", r.Token()}, []any{exclusive, ok, name, token})
		}
		carries(r.Context())
		require.NoError(w, r.Do(w.Context(), errGivenBack, func(ctx context.Context) error {
			carries(ctx)
			return nil
		}))
		w.clear()
	})
}

// touched counts the keys that the server reads, or compares, for the transactions that
// match.
func (w *fixture) touched(match request) *atomic.Int64 {
	var n atomic.Int64
	count := func(from, to []byte) {
		for _, k := range w.f.Keys("") {
			if k >= string(from) && (len(to) == 0 && k == string(from) || k < string(to)) {
				n.Add(1)
			}
		}
	}
	w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
		t := match.of(q)
		if t == nil {
			return false
		}
		for _, c := range t.Compare {
			count(c.Key, c.RangeEnd)
		}
		for _, o := range t.Success {
			if r := o.GetRequestRange(); r != nil {
				count(r.Key, r.RangeEnd)
			}
		}
		return false
	}})
	return &n
}

// Budget: what a reader's enqueue and query make the server read does not grow with the number of
// readers.
func TestAReadersQuestionCostsNoMoreBesideManyReaders(t *testing.T) {
	var costs []int64
	for _, readers := range []int{5, 5000} {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			for i := range readers {
				w.f.Put(fmt.Sprintf("name/+1f-%d", i+1), "", 0)
			}
			w.f.Put("name/x", "", 0)
			enqueued, queried := w.touched(isEnqueue), w.touched(isQuery)
			a := w.starts(w.session(), true)
			require.True(w, a.waits())
			w.f.Delete("name/x")
			a.won()
			assert.NotZero(w, enqueued.Load())
			assert.NotZero(w, queried.Load())
			costs = append(costs, enqueued.Load(), queried.Load())
		})
	}
	assert.Equal(t, costs[:2], costs[2:])
}
