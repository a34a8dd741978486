package watcher

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// flood acknowledges every creation, sends events to all watches, and ends the stream now and then.
func (c *call) flood(rev *atomic.Int64, rnd *rand.Rand) {
	keys := map[int64]string{}
	for ticks := 0; ; {
		select {
		case r := <-c.reqs:
			if cr := r.GetCreateRequest(); cr != nil {
				keys[cr.WatchId] = string(cr.Key)
				c.created(cr.WatchId)
			} else if cr := r.GetCancelRequest(); cr != nil {
				delete(keys, cr.WatchId)
			}
		case <-time.After(time.Duration(rnd.Int64N(int64(4 * time.Millisecond)))):
			if ticks++; ticks == 200 || rnd.IntN(300) == 0 { // with chance alone, possibly no stream would end
				c.end <- status.Error(codes.Unavailable, "now and then")
				return
			}
			n := rev.Add(1)
			for id, key := range keys {
				c.events(id, put(key, n))
			}
		case <-c.gone:
			return
		}
	}
}

func TestCallsAreOneAtATimeAndEndWithCancelUnderStress(t *testing.T) {
	seed := testscale.Seed(t)
	inBubble(t, benchConfig{members: 3}, func(t *testing.T, b *bench) {
		var rev atomic.Int64
		var floods sync.WaitGroup
		stop := make(chan struct{})
		floods.Go(func() {
			for n := uint64(0); ; n++ {
				select {
				case c := <-b.streams:
					floods.Go(func() { c.flood(&rev, rand.New(rand.NewPCG(seed, n))) })
				case <-stop:
					return
				}
			}
		})
		var users sync.WaitGroup
		var total atomic.Int64
		for u := range 16 {
			users.Go(func() {
				rnd := rand.New(rand.NewPCG(^seed, uint64(u)))
				var mu sync.Mutex // held around Cancel and within the function
				for range 15 {
					var in, late, ended atomic.Int32
					w := b.hub.Watch(fmt.Sprintf("user/%d", u), "", 1, func(Update) {
						assert.Equal(t, int32(1), in.Add(1), "two calls at once")
						if ended.Load() == 1 {
							late.Add(1) // begun before Cancel returned; there can be only one
						}
						mu.Lock()
						total.Add(1)
						mu.Unlock()
						in.Add(-1)
					})
					time.Sleep(time.Duration(rnd.Int64N(int64(300 * time.Millisecond))))
					mu.Lock()
					w.Cancel()
					ended.Store(1)
					mu.Unlock()
					assert.LessOrEqual(t, late.Load(), int32(1))
				}
			})
		}
		users.Wait()
		time.Sleep(5 * time.Second)
		assert.Greater(t, total.Load(), int64(1000))
		assert.Greater(t, b.hub.Stats().Moves, uint64(0))
		b.hub.Close()
		close(stop)
		synctest.Wait()
		floods.Wait()
	})
}
