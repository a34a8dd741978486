package shard_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
)

// However slow the consumer is, and whatever is compacted, deleted or put meanwhile, Observe eventually
// shows the same as a new one.
func TestObserveShowsInTheEndWhatThereIs(t *testing.T) {
	first := testscale.Seed(t)
	for i := range uint64(testscale.Of(4, 100)) {
		inBubble(t, 5, func(w *fixture) { w.watched(rand.New(rand.NewPCG(first+i, 4))) })
	}
}

func (w *fixture) watched(r *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	ctx, cancel := context.WithCancel(context.Background())
	var last shard.Table
	done := make(chan struct{})
	slow := upTo(3 * time.Second)
	go func() { // ends with ctx
		defer close(done)
		for table, err := range shard.Observe(ctx, w.client(w.f.Dial), "jobs") {
			if err != nil {
				assert.ErrorIs(w, err, context.Canceled)
				return
			}
			last = table
			time.Sleep(slow)
		}
	}()
	put := map[string]bool{}
	puts := func(key, value string) {
		w.f.Put(key, value, 0)
		put[key] = true
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); w.pass(upTo(time.Second)) {
		lease := int64(1 + r.IntN(4))
		n := 5
		if r.IntN(8) == 0 {
			n = 1 + r.IntN(9)
		}
		switch r.IntN(7) {
		case 0, 1:
			puts(w.keys.Member(n, lease), string(shards.Member{Weight: 1 + r.IntN(9), Cannot: shards.SetOf(r.IntN(n))}.Encode()))
		case 2:
			puts(w.keys.Wish(lease), string(shards.SetOf(r.IntN(n)).Encode()))
		case 3, 4:
			puts(w.keys.Queue(r.IntN(n)).Prefix+string(rune('0'+lease))+"-1", "")
		case 5:
			for key := range put {
				if r.IntN(2) == 0 {
					w.f.Delete(key)
					delete(put, key)
				}
			}
		case 6:
			fault := w.f.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: status.Error(codes.Unavailable, "no")})
			for i := range w.f.Members() {
				w.f.Member(i).EndStreams("Watch", status.Error(codes.Unavailable, "gone"))
			}
			puts(w.keys.Planner().Prefix+"1-1", string(shards.Said{Planned: w.f.Revision()}.Encode()))
			if r.IntN(2) == 0 {
				w.f.Compact(w.f.Revision())
			}
			time.AfterFunc(upTo(3*time.Second), fault.Lift)
		}
	}
	w.pass(20 * time.Second)
	cancel()
	<-done
	for table, err := range shard.Observe(context.Background(), w.client(w.f.Dial), "jobs") {
		assert.NoError(w, err)
		assert.Equal(w, table.Shards, last.Shards)
		assert.Equal(w, table.Members, last.Members)
		break
	}
	for key := range put {
		w.f.Delete(key)
	}
}
