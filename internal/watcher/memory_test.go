package watcher

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	b := newBench(t, benchConfig{members: 3})
	b.serveAll()
	ws := make([]*Watch, manyWatches)
	var calls atomic.Int64
	before, goroutines := heap(), runtime.NumGoroutine()
	for i := range ws {
		ws[i] = b.hub.Watch(fmt.Sprintf("some/lock/%032d", i), "", 1, func(Update) { calls.Add(int64(i)) })
		if (i+1)%perStream == 0 || i == len(ws)-1 { // no creation waits behind those of all other streams
			require.Eventually(t, ws[i].Armed, time.Minute, time.Millisecond)
		}
	}
	for _, w := range ws {
		require.Eventually(t, w.Armed, time.Minute, time.Millisecond)
	}
	streams := (manyWatches + perStream - 1) / perStream
	assert.Equal(t, Stats{Watches: manyWatches, Streams: streams}, b.hub.Stats())
	// Two of ours for a stream; and gRPC's own and the test server's for a stream and for a connection.
	assert.Less(t, runtime.NumGoroutine()-goroutines, 10*streams+50)
	each := int64(heap()-before) / manyWatches
	t.Logf("%d bytes for each of %d watches, streams and their server included", each, manyWatches)
	if manyWatches > 50_000 {
		assert.Less(t, each, int64(600))
	}
	for _, w := range ws {
		w.Cancel()
	}
	require.Eventually(t, func() bool { return b.hub.Stats().Streams == 0 }, time.Minute, 10*time.Millisecond)
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
