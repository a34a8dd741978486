package shard_test

import (
	"context"
	"fmt"
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

// A trouble is what is wrong with one worker of four, or with one shard of 24.
type trouble struct {
	of, at, how string
	moves       int
}

// matters reports whether shard i is in trouble on the worker with this ID.
func (c trouble) matters(at, id string, i int) bool {
	return c.at == at && (c.of == "worker" && id == "3" || c.of == "shard" && i == 7)
}

// stall is the Stall of all workers.
func (c trouble) stall() time.Duration {
	if c.how == "hangs with a Stall" {
		return 20 * time.Second
	}
	return 0
}

// meet does what goes wrong.
func (c trouble) meet(ctx context.Context, id string, died chan<- string, freed <-chan struct{}) error {
	switch c.how {
	case "fails":
		return errWork
	case "hangs", "hangs with a Stall":
		<-freed
	case "dies":
		died <- id
		<-ctx.Done()
	}
	return nil
}

// The other shards run, and few of their works are interrupted, whatever is in trouble, in whichever
// step, and however many may move at once.
//
// rule: SH9
func TestTheTroubleOfOneIsNotTheOthers(t *testing.T) {
	for a, of := range []string{"worker", "shard"} {
		for b, at := range []string{"work", "prepare", "enqueue"} {
			for c, how := range []string{"fails", "hangs", "dies", "hangs with a Stall"} {
				for d, moves := range []int{0, 1, 4} {
					if at == "enqueue" && how != "fails" {
						continue // what hangs there is repeated, and who dies there is who dies in Prepare
					}
					if how == "hangs with a Stall" && at != "work" {
						continue // only a hold can stall
					}
					if !testscale.Proof() && (a+b+c+d)%3 != 0 {
						continue // one number of Moves for each three of the others, and every pair of two
					}
					c := trouble{of, at, how, moves}
					t.Run(fmt.Sprintf("the %s %s in %s, Moves %d", of, how, at, moves), func(t *testing.T) { c.play(t) })
				}
			}
		}
	}
}

func (c trouble) play(t *testing.T) {
	inBubble(t, 24, func(w *fixture) {
		died, freed := make(chan string, 100), make(chan struct{})
		w.Cleanup(func() { close(freed) })
		start := func(id string) *worker {
			opts := shard.Options{ID: id, Moves: c.moves, Stall: c.stall(), Prepare: func(ctx context.Context, i int) error {
				if c.matters("prepare", id, i) {
					return c.meet(ctx, id, died, freed)
				}
				return nil
			}}
			return w.add(opts, func(ctx context.Context, h *shard.Held) error {
				if c.matters("work", id, h.Shard()) {
					return c.meet(ctx, id, died, freed)
				}
				if c.stall() > 0 {
					return progresses(ctx, h)
				}
				<-ctx.Done()
				return nil
			})
		}
		if c.at == "enqueue" {
			w.f.Inject(etcdfake.Rule{Op: "enqueue", Match: c.refused(w), Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		}
		live := map[string]*worker{}
		for _, id := range []string{"0", "1", "2", "3"} {
			live[id] = start(id)
		}
		var others []int
		for i := range w.n {
			if c.of == "worker" || i != 7 {
				others = append(others, i)
			}
		}
		run := func() (idle float64, moving int) {
			for _, x := range w.all {
				moving -= count(shard.Moving, x)
			}
			for range 10 * 60 {
				idle += w.idle(time.Second, others...)
				for len(died) > 0 {
					if id := <-died; !live[id].gone {
						live[id].kill()
						live[id] = start(id)
					}
				}
			}
			for _, x := range w.all {
				moving += count(shard.Moving, x)
			}
			return idle / (10 * 60), moving
		}
		run()
		idle, moving := run()
		most := 0.05
		if c.of == "shard" && c.how == "dies" {
			most = 0.1 // each death takes what else the worker has with it, until it is started again
		}
		assert.LessOrEqual(w, idle, most, "the part of the time for which the other shards had nobody")
		assert.LessOrEqual(w, moving, 16, "works that were interrupted")
	})
}

// refused are the enqueues that the servers refuse.
func (c trouble) refused(w *fixture) func(etcdfake.Request) bool {
	return func(q etcdfake.Request) bool {
		if c.of == "shard" {
			return etcdfake.OnKey(w.keys.Queue(7).Prefix)(q)
		}
		for _, key := range w.f.Keys(w.keys.Prefix + "m/") {
			if m, err := shards.DecodeMember(w.n, w.f.Get(key).Value); err == nil && m.ID == "3" {
				if lease := w.keys.Parse(key).Lease; etcdfake.OnLease(lease)(q) && !etcdfake.OnKey(w.keys.Planner().Prefix)(q) {
					return true
				}
			}
		}
		return false
	}
}
