package listwatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// Guarantee 1.
func TestATailGivesEachEventOnceInTheOrderOfRevisions(t *testing.T) {
	inBubble(t, func(w *fixture) {
		from := w.f.Put("k/a", "1", 0)
		tail := w.open(from, nil)
		want := []int64{from, w.f.Put("k/b", "1", 0), w.f.Put("k/a", "2", 0)}
		w.f.Put("other", "1", 0)
		synctest.Wait()
		<-w.news
		assert.Equal(w, want, drain(tail))
		require.True(w, w.f.Delete("k/b"))
		<-w.news
		held, gap, err := tail.Peek()
		require.Len(w, held, 1)
		assert.True(w, held[0].Events[0].Deleted)
		assert.Equal(w, []any{int64(0), nil}, []any{gap, err})
	})
}

// Guarantee 2: what the reader does not take is held up to a bound, and nothing is lost.
func TestATailThatHoldsTooMuchGoesOnAfterTheLastEventItHeld(t *testing.T) {
	for name, size := range map[string]int{"many": 1, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				value, n := string(make([]byte, size)), 40
				if size == 1 {
					n = 10_000
				}
				tail := w.open(w.f.Revision()+1, nil)
				synctest.Wait()
				var want []int64
				for i := range n {
					want = append(want, w.f.Put(fmt.Sprintf("k/%d", i), value, 0))
					synctest.Wait() // one message each, so that the bound is met in the middle
				}
				held, _, _ := tail.Peek()
				events, bytes := 0, 0
				for _, c := range held {
					for _, e := range c.Events {
						events, bytes = events+1, bytes+len(e.Value)
					}
				}
				assert.LessOrEqual(w, events, 4097)
				assert.LessOrEqual(w, bytes, 17<<20+1)
				var got []int64
				for len(got) < n {
					<-w.news
					got = append(got, drain(tail)...)
					synctest.Wait()
				}
				assert.Equal(w, want, got)
			})
		})
	}
}

// Guarantee 3.
func TestAGapIsTheLastThingThatATailGives(t *testing.T) {
	inBubble(t, func(w *fixture) {
		from := w.f.Put("k/a", "1", 0)
		last := w.f.Put("k/a", "2", 0)
		w.f.Compact(last)
		tail := w.open(from, nil)
		<-w.news
		held, gap, err := tail.Peek()
		assert.Empty(w, held)
		assert.Equal(w, last, gap)
		assert.NoError(w, err)
		w.f.Put("k/a", "3", 0)
		synctest.Wait()
		assert.Empty(w, drain(tail))
	})
}

func TestAClosedTailTakesNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		tail := w.open(w.f.Revision()+1, nil)
		synctest.Wait()
		tail.Close()
		tail.Close()
		w.f.Put("k/a", "1", 0)
		synctest.Wait()
		assert.Empty(w, drain(tail))
		assert.Empty(w, w.news)
	})
}

// Another Tail of the same keys keeps what this one takes out.
func TestWhatOneTailStripsAnotherHas(t *testing.T) {
	inBubble(t, func(w *fixture) {
		from := w.f.Revision() + 1
		bare := w.open(from, func(e *watcher.Event) { e.Value = nil })
		whole := w.open(from, nil)
		synctest.Wait()
		w.f.Put("k/a", "value", 0)
		synctest.Wait()
		for want, tail := range map[string]*listwatch.Tail{"": bare, "value": whole} {
			held, _, _ := tail.Peek()
			require.Len(w, held, 1)
			assert.Equal(w, want, string(held[0].Events[0].Value))
		}
	})
}
