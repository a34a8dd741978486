//lint:file-ignore SA1012 that nil contexts are refused is tested

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/pawltest"
	"github.com/pawl-locks/pawl/watch"
)

// A watcher ranges over a watch in a new goroutine.
type watcher struct {
	stop context.CancelCauseFunc
	done chan struct{}

	mu     sync.Mutex
	events []watch.Event
	err    error
}

func startWatch(c *pawl.Client, key string, opts watch.Options) *watcher {
	return startWatchSlowly(c, key, opts, func() {})
}

// startWatchSlowly calls pause after each event.
func startWatchSlowly(c *pawl.Client, key string, opts watch.Options, pause func()) *watcher {
	ctx, stop := context.WithCancelCause(context.Background())
	w := &watcher{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for ev, err := range c.Watch(ctx, key, opts) {
			w.mu.Lock()
			if err != nil {
				w.err = errors.Join(w.err, err)
			} else {
				w.events = append(w.events, ev)
			}
			w.mu.Unlock()
			pause()
		}
	}()
	return w
}

func (w *watcher) end() error {
	w.stop(nil)
	<-w.done
	return w.err
}

func (w *watcher) all() []watch.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func TestAWatchYieldsTheChangesOfAPrefixOrOfOneKey(t *testing.T) {
	inBubble(t, pawl.Config{Namespace: "ns"}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		fake.Put("a/1", "before", 0)
		prefix := startWatch(c, "a/", watch.Options{Prefix: true, Values: true})
		bare := startWatch(c, "a/1", watch.Options{})
		all := startWatch(c, "", watch.Options{Prefix: true})
		sleep(time.Second)
		first := fake.Put("a/1", "one", 0)
		fake.Put("b", "other", 0)
		second := fake.Put("a/2", "two", 0)
		require.True(t, fake.Delete("a/1"))
		sleep(time.Second)
		got := prefix.all()
		require.Len(t, got, 3)
		assert.Equal(t, watch.Event{Key: "a/1", Value: []byte("one"), ModRevision: first, CreateRevision: first - 1}, got[0])
		assert.Equal(t, watch.Event{Key: "a/2", Value: []byte("two"), ModRevision: second, CreateRevision: second}, got[1])
		assert.Equal(t, watch.Event{Key: "a/1", Deleted: true, ModRevision: second + 1}, got[2])
		assert.Equal(t, []watch.Event{
			{Key: "a/1", ModRevision: first, CreateRevision: first - 1}, {Key: "a/1", Deleted: true, ModRevision: second + 1},
		}, bare.all())
		assert.Len(t, all.all(), 4)
		again := startWatch(c, "a/", watch.Options{Prefix: true, From: second})
		sleep(time.Second)
		assert.Len(t, again.all(), 2, "From is the first")
		for _, w := range []*watcher{prefix, bare, all, again} {
			assert.ErrorIs(t, w.end(), context.Canceled)
		}
	})
}

func TestAWatchGoesOnThroughWhateverBreaks(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		w := startWatch(c, "k", watch.Options{})
		sleep(time.Second)
		var want []int64
		for round, fault := range []func(){
			fake.Cut, fake.BlackHole, func() { fake.Member(0).Freeze() }, func() { fake.ChangeLeader(1) },
			func() { fake.Member(1).Isolate() }, func() { fake.Member(2).Reset() },
		} {
			fault()
			for range 3 {
				want = append(want, fake.Put("k", fmt.Sprint(round), 0))
				time.Sleep(time.Second)
			}
			fake.Heal()
			sleep(20 * time.Second)
		}
		var got []int64
		for _, e := range w.all() {
			assert.Zero(t, e.Gap)
			got = append(got, e.ModRevision)
		}
		assert.Equal(t, want, got)
		require.ErrorIs(t, w.end(), context.Canceled)
	})
}

func TestAWatchYieldsAGapInItsPlaceAndGoesOn(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		first := fake.Put("k", "1", 0)
		fake.Put("k", "2", 0)
		last := fake.Put("k", "3", 0)
		fake.Compact(last)
		w := startWatch(c, "k", watch.Options{From: first})
		sleep(time.Second)
		assert.Equal(t, []watch.Event{{Gap: last}}, w.all())
		next := fake.Put("k", "4", 0)
		sleep(time.Second)
		assert.Equal(t, []watch.Event{{Gap: last}, {Key: "k", ModRevision: next, CreateRevision: first}}, w.all())
		require.ErrorIs(t, w.end(), context.Canceled)
	})
}

func TestASlowConsumerOfAWatchLosesNothingThatIsNotCompacted(t *testing.T) {
	const many = 10_000 // more than may wait for the consumer
	for _, compacted := range []bool{false, true} {
		inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
			resume := make(chan struct{})
			w := startWatchSlowly(c, "k", watch.Options{}, func() { <-resume })
			sleep(time.Second)
			var want []int64
			for range many {
				want = append(want, fake.Put("k", "v", 0))
				if len(want)%100 == 0 {
					synctest.Wait()
				}
			}
			if compacted {
				fake.Compact(want[many-1])
			}
			close(resume)
			sleep(time.Minute)
			got := w.all()
			if compacted {
				last := got[len(got)-1]
				assert.Equal(t, watch.Event{Gap: want[many-1]}, last)
				got = got[:len(got)-1]
				assert.Less(t, len(got), many)
			} else {
				assert.Len(t, got, many)
			}
			for i, e := range got {
				require.Equal(t, want[i], e.ModRevision)
			}
			require.ErrorIs(t, w.end(), context.Canceled)
		})
	}
}

func TestAWatchEndsWithWhatEndsIt(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		why := errors.New("no longer needed")
		stopped, closed := startWatch(c, "k", watch.Options{}), startWatch(c, "k", watch.Options{})
		sleep(time.Second)
		stopped.stop(why)
		<-stopped.done
		assert.ErrorIs(t, stopped.err, why)
		assert.ErrorIs(t, stopped.err, context.Canceled)
		assert.ErrorContains(t, stopped.err, `pawl: watch "k": `)
		require.NoError(t, c.Close())
		<-closed.done
		assert.ErrorIs(t, closed.err, lease.ErrClosed)
		for range c.Watch(t.Context(), "k", watch.Options{}) {
			break // a watch of a closed client yields an error
		}
	})
}

func TestAWatchWhoseContextEndsWhileItIsConsumedYieldsNothingMore(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		rev := fake.Put("k", "1", 0)
		fake.Put("k", "2", 0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := 0
		var end error
		for _, err := range c.Watch(ctx, "k", watch.Options{From: rev}) {
			if end = err; err == nil {
				events++
				cancel()
			}
		}
		assert.Equal(t, 1, events)
		assert.ErrorIs(t, end, context.Canceled)
	})
}

func TestAWatchThatMayNotReadEndsWithTheDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		fake.EnableAuth("root")
		fake.SetUser("u", "p", etcdfake.Access{Prefix: "mine/", Read: true})
		c := dial(t, fake, pawl.Config{Username: "u", Password: "p"})
		for _, opts := range []watch.Options{{}, {From: 1}} {
			w := startWatch(c, "theirs/k", opts)
			<-w.done
			assert.ErrorContains(t, w.err, "permission denied")
		}
		w := startWatch(c, "mine/", watch.Options{Prefix: true})
		sleep(time.Second)
		fake.Put("mine/k", "v", 0)
		sleep(time.Second)
		assert.Len(t, w.all(), 1)
		require.ErrorIs(t, w.end(), context.Canceled)
	})
}

func TestAWatchRefusesWhatCannotBeMeant(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		var none *pawl.Client
		for name, seq := range map[string]func(func(watch.Event, error) bool){
			"the key is empty": c.Watch(t.Context(), "", watch.Options{}),
			"Options.From":     c.Watch(t.Context(), "k", watch.Options{From: -1}),
			"nil context":      c.Watch(nil, "k", watch.Options{}), //nolint:staticcheck // what a caller may do
			"nil Client":       none.Watch(t.Context(), "k", watch.Options{}),
		} {
			n := 0
			for _, err := range seq {
				n++
				assert.ErrorContains(t, err, name)
			}
			assert.Equal(t, 1, n, name)
		}
	})
}

func TestBreakingOutOfAWatchLeavesNothing(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		rev := fake.Put("k", "1", 0)
		seq := c.Watch(t.Context(), "k", watch.Options{From: rev, Values: true})
		for range 2 { // each range begins again
			for ev, err := range seq {
				require.NoError(t, err)
				assert.Equal(t, "1", string(ev.Value))
				break
			}
		}
		sleep(5 * time.Second)
		assert.Equal(t, 4, fake.Counts().Received["Watch"], "two creations, each cancelled")
	})
}

// A program keeps a copy of its configuration up to date.
func ExampleClient_Watch() {
	t := exampletb.Begin()
	defer t.End()
	ctx := context.Background()
	client := pawltest.New(t).Client(t, pawl.Config{})

	read, err := client.KV().Txn(ctx, kv.Txn{Then: []kv.Op{
		kv.Put("config/color", []byte("red")), kv.GetPrefix("config/", 0),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range read.Gets {
		fmt.Println(e.Key, "is", string(e.Value))
	}
	for _, op := range []kv.Op{kv.Put("config/size", []byte("10")), kv.Delete("config/color")} { // somebody else
		if _, err := client.KV().Txn(ctx, kv.Txn{Then: []kv.Op{op}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	seen := watch.Options{Prefix: true, From: read.Revision + 1, Values: true}
	for ev, err := range client.Watch(ctx, "config/", seen) {
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case ev.Gap > 0:
			fmt.Println("changes are missing: read again")
		case ev.Deleted:
			fmt.Println(ev.Key, "is gone")
			return
		default:
			fmt.Println(ev.Key, "is", string(ev.Value))
		}
	}
	// Output:
	// config/color is red
	// config/size is 10
	// config/color is gone
}
