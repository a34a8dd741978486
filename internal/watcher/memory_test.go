package watcher

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// serveAll acknowledges every creation until the test ends.
func (b *bench) serveAll() {
	stop := make(chan struct{})
	b.t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case c := <-b.streams:
				go c.grantAll()
			case <-stop:
				return
			}
		}
	}()
}

// grantAll acknowledges every creation until the stream ends.
func (c *call) grantAll() {
	for {
		select {
		case r := <-c.reqs:
			if cr := r.GetCreateRequest(); cr != nil {
				c.created(cr.WatchId)
			}
		case <-c.gone:
			return
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestManyWatchesAreCheapAndHaveNoGoroutines(t *testing.T) {
	many := testscale.Of(5_000, 60_000)
	inBubble(t, benchConfig{members: 3}, func(t *testing.T, b *bench) {
		b.serveAll()
		ws := make([]*Watch, many)
		var calls atomic.Int64
		before, goroutines := heap(), runtime.NumGoroutine()
		for i := range ws {
			ws[i] = b.hub.Watch(fmt.Sprintf("some/lock/%032d", i), "", 1, func(Update) { calls.Add(int64(i)) })
			if (i+1)%perStream == 0 { // so that no creation waits behind those of all other streams
				synctest.Wait()
			}
		}
		synctest.Wait()
		for _, w := range ws {
			require.True(t, w.Armed())
		}
		streams := (many + perStream - 1) / perStream
		assert.Equal(t, Stats{Watches: many, Streams: streams}, b.hub.Stats())
		// Two of the Hub for each stream, and those of gRPC and the test server for a stream and for a
		// connection.
		assert.Less(t, runtime.NumGoroutine()-goroutines, 10*streams+50)
		each := int64(heap()-before) / int64(many)
		t.Logf("%d bytes for each of %d watches, streams and their server included", each, many)
		if !racedetector.On {
			assert.Less(t, each, int64(600))
		}
		for _, w := range ws {
			w.Cancel()
		}
		time.Sleep(time.Minute)
		assert.Zero(t, b.hub.Stats().Streams)
	})
}

func BenchmarkEvent(b *testing.B) {
	t := newBench(b, benchConfig{})
	got := make(chan struct{}, 1)
	t.hub.Watch("a", "", 1, func(Update) { got <- struct{}{} })
	c := t.accept()
	id := c.grant().WatchId
	b.ReportAllocs()
	rev := int64(1)
	for b.Loop() {
		rev++
		c.events(id, put("a", rev))
		<-got
	}
}

func BenchmarkWatchAndCancel(b *testing.B) {
	t := newBench(b, benchConfig{})
	t.hub.Watch("keep", "", 1, func(Update) {})
	c := t.accept()
	c.grant()
	b.ReportAllocs()
	for b.Loop() {
		w := t.hub.Watch("a", "", 1, func(Update) {})
		c.grant()
		for !w.Armed() {
			runtime.Gosched()
		}
		w.Cancel()
		c.canceled()
	}
}
