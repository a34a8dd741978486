package watcher_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Watches of all kinds come and go, keys too, and streams are cut. Every watch learns every
// deletion once, starting at its revision, or since it was created.
// rule: A3
func TestWatchesThatComeAndGoMissNothing(t *testing.T) {
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		rnd := rand.New(rand.NewPCG(testscale.Seed(t), 0))
		const keys = 4
		type one struct {
			w    *watcher.Watch
			l    *log
			key  string
			from int64
			all  bool
		}
		h := r.hub("")
		watchers := metric(t, "etcd_debugging_mvcc_watcher_total", "") // of servers that are gone
		rev := r.put("k", "the beginning")
		first := rev
		var truth []watcher.Event
		var on, off []one
		for step := range 1500 {
			if step == 750 { // by chance alone, it might be that none is cut
				r.cut()
			}
			key := fmt.Sprint("k", rnd.IntN(keys))
			switch n := rnd.IntN(10); {
			case n < 3:
				rev = r.put(key, "v")
				truth = append(truth, watcher.Event{Key: key, ModRevision: rev})
			case n < 5:
				if now := r.remove(key); now > rev {
					rev = now
					truth = append(truth, watcher.Event{Key: key, ModRevision: rev, Deleted: true})
				}
			case n < 8:
				o := one{l: &log{t: t}, key: key, from: max(rev+1-rnd.Int64N(3), first), all: rnd.IntN(2) == 0}
				if o.all {
					o.w = h.Watch(key, "", o.from, o.l.note)
				} else {
					o.w = h.WatchDeletionsNow(key, "", o.from, o.l.note)
				}
				on = append(on, o)
			case n < 9 && len(on) > 0:
				i := rnd.IntN(len(on))
				on[i].w.Cancel()
				off = append(off, on[i])
				on = append(on[:i], on[i+1:]...)
			case rnd.IntN(20) == 0:
				r.cut()
			}
			if rnd.IntN(3) == 0 {
				time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond))))
			}
		}
		time.Sleep(30 * time.Second)
		want := func(o one) (revs []int64) {
			created, got := o.l.created(), o.l.revisions()
			for _, e := range truth {
				missed := e.ModRevision <= created && !slices.Contains(got, e.ModRevision) // as it may be
				if e.Key == o.key && e.ModRevision >= o.from && (o.all || e.Deleted && !missed) {
					revs = append(revs, e.ModRevision)
				}
			}
			return revs
		}
		for _, o := range on {
			require.Equal(t, want(o), o.l.revisions(), o)
			o.w.Cancel()
		}
		for _, o := range off {
			got := o.l.revisions()
			whole := want(o)
			require.LessOrEqual(t, len(got), len(whole), o)
			require.True(t, slices.Equal(whole[:len(got)], got), "%v: got %v of %v", o, got, whole)
		}
		assert.NotZero(t, h.Stats().Moves)
		time.Sleep(10 * time.Second)
		assert.Equal(t, watcher.Stats{Moves: h.Stats().Moves}, h.Stats())
		assert.Equal(t, watchers, metric(t, "etcd_debugging_mvcc_watcher_total", ""))
	})
}
