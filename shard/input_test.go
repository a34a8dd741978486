package shard_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

func TestBadInputIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		c := w.client(w.f.Dial)
		s, err := c.NewSession(w.Context(), lease.Options{})
		require.NoError(w, err)
		handle := s.Detach()
		w.f.Revoke(s.ID())
		work := func(context.Context, *shard.Held) error { return nil }
		rev := w.f.Revision()
		for _, bad := range []struct {
			says string
			name string
			n    int
			opts shard.Options
			work func(context.Context, *shard.Held) error
		}{
			{"0 shards, want 1 to 100000", "jobs", 0, shard.Options{}, work},
			{"-1 shards", "jobs", -1, shard.Options{}, work},
			{"100001 shards", "jobs", 100_001, shard.Options{}, work},
			{"nil work", "jobs", 1, shard.Options{}, nil},
			{"empty name", "", 1, shard.Options{}, work},
			{"too many for the names of its shards", strings.Repeat("n", 1020), 1, shard.Options{}, work},
			{"1025 bytes", strings.Repeat("n", 1025), 1, shard.Options{}, work},
			{"Options.Value has 1025 bytes", "jobs", 1, shard.Options{Value: make([]byte, 1025)}, work},
			{"Options.Weight is 10001", "jobs", 1, shard.Options{Weight: 10_001}, work},
			{"Options.Overrun is -1ns", "jobs", 1, shard.Options{Overrun: -1}, work},
			{"Options.Moves is -1", "jobs", 1, shard.Options{Moves: -1}, work},
			{"Options.Session.Resume is set", "jobs", 1, shard.Options{Session: lease.Options{Resume: handle}}, work},
			{"Options.TTL is 1s", "jobs", 1, shard.Options{Session: lease.Options{TTL: time.Second}}, work},
		} {
			err := shard.Run(w.Context(), c, bad.name, bad.n, bad.opts, bad.work)
			assert.ErrorContains(w, err, bad.says)
			assert.ErrorContains(w, err, "shard: run ")
		}
		var none context.Context
		assert.ErrorContains(w, shard.Run(none, c, "jobs", 1, shard.Options{}, work), "nil context")
		assert.ErrorContains(w, shard.Run(w.Context(), nil, "jobs", 1, shard.Options{}, work), "nil Client")
		assert.Equal(w, rev, w.f.Revision())
		require.NoError(w, c.Close())
		assert.ErrorIs(w, shard.Run(w.Context(), c, "jobs", 1, shard.Options{}, work), lease.ErrClosed)
	})
}

func TestAContextThatHasEndedEndsRunAtOnce(t *testing.T) {
	inBubble(t, 3, func(w *fixture) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
		defer cancel()
		time.Sleep(time.Second)
		err := shard.Run(ctx, w.client(w.f.Dial), "jobs", 3, shard.Options{}, func(context.Context, *shard.Held) error { return nil })
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		w.pass(time.Minute)
		assert.Empty(w, w.f.Keys(""))
	})
}

// The answer to the join comes after the context has ended.
func TestAWorkerThatJoinsAsItLeavesLeavesNoTrace(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.f.Inject(etcdfake.Rule{Op: "join the shards' workers", Edit: func(etcdfake.Request, etcdapi.Message) { cancel() }})
		slow := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := call(context.WithoutCancel(ctx), method, req, reply, conn, opts...)
			if strings.HasSuffix(method, "/Txn") {
				time.Sleep(time.Millisecond)
			}
			return err
		})
		c, err := pawl.Dial(w.Context(), pawl.Config{Endpoints: w.f.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(w.f.Dial), opnames.DialOption(), slow}})
		require.NoError(w, err)
		err = shard.Run(ctx, c, "jobs", 2, shard.Options{}, func(context.Context, *shard.Held) error { return nil })
		require.ErrorIs(w, err, context.Canceled)
		w.pass(time.Second)
		assert.Empty(w, w.f.Leases())
		assert.NoError(w, c.Close())
	})
}

// Closing the client ends the works' contexts first, and then Run reports it.
func TestAClosedClientEndsRun(t *testing.T) {
	inBubble(t, 3, func(w *fixture) {
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		require.Len(w, x.owned(), 3)
		_ = x.c.Close()
		<-x.done
		assert.ErrorIs(w, x.err, lease.ErrClosed)
		assert.Empty(w, x.owned())
	})
}

func TestRunWaitsForAClusterThatIsNotThereYet(t *testing.T) {
	inBubble(t, 3, func(w *fixture) {
		y := w.start(shard.Options{})
		w.f.Cut()
		w.pass(time.Minute)
		assert.NotEmpty(w, y.kinds(shard.Retrying))
		w.f.Heal()
		w.pass(40 * time.Second)
		w.shared()
	})
}

func TestWeightsAreShares(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		heavy := w.start(shard.Options{Weight: 4})
		light := w.start(shard.Options{Weight: 2})
		none := w.start(shard.Options{Weight: -1})
		w.pass(4 * time.Second)
		assert.Equal(w, []int{8, 4, 0}, []int{len(heavy.owned()), len(light.owned()), len(none.owned())})
		for _, x := range []*worker{heavy, light} {
			x.kill()
		}
		w.pass(5 * ttl)
		assert.Empty(w, none.owned())
		w.start(shard.Options{})
		w.pass(4 * time.Second)
		assert.Equal(w, []int{0, 12}, w.loads())
	})
}

// At most Moves shards are given up at once.
func TestMovesAreBounded(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		x := w.start(shard.Options{Moves: 2}, func(x *worker) { x.slow = 2 * time.Second })
		w.pass(20 * time.Second)
		require.Len(w, x.owned(), 12)
		y := w.start(shard.Options{})
		most := 0
		for range 100 {
			w.pass(100 * time.Millisecond)
			most = max(most, len(x.kinds(shard.Moving))-len(x.kinds(shard.Released)))
		}
		assert.Equal(w, 2, most)
		assert.Len(w, y.owned(), 6)
	})
}

// At most Moves shards are gained at once, even of those that have no owner.
func TestWhatNobodyHasIsGainedInTurn(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.f.Put(w.keys.Planner().Prefix+"foreign", "", 0) // a candidate that never plans
		var now, most atomic.Int32
		x := w.start(shard.Options{Moves: 2, Prepare: func(context.Context, int) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}})
		w.pass(4 * ttl)
		assert.Len(w, x.owned(), 6)
		assert.EqualValues(w, 2, most.Load())
	})
}

// A worker that waits for a shard takes shards without an owner meanwhile.
func TestAWorkerThatWaitsInTurnTakesWhatNobodyHas(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		y := w.start(shard.Options{})
		w.pass(3 * time.Second)
		y.set(func() { y.ignores = true })
		x := w.start(shard.Options{Moves: 1})
		w.pass(3 * time.Second)
		moving := y.kinds(shard.Moving)
		require.Len(w, moving, 1, "x waits for this one")
		lost := (moving[0].Shard + 1) % 4
		w.f.Delete(y.has[lost].Key())
		w.pass(12 * ttl) // only the list at every eighth count shows it, because the waiter makes up for it in the count
		assert.Equal(w, []int{lost}, x.owned())
	})
}

// The planner's TTL is a fraction of another worker's.
func TestAPrepareMayTakeLongerThanThePlannersTTL(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		w.start(shard.Options{Session: lease.Options{TTL: lease.MinTTL}})
		w.pass(3 * time.Second)
		calls := make(chan int, 10)
		w.start(shard.Options{Session: lease.Options{TTL: time.Minute}, Prepare: func(ctx context.Context, i int) error {
			calls <- i
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		}})
		w.pass(25 * time.Second)
		w.shared()
		assert.Len(w, calls, 2)
	})
}

// Prepare runs while the old owner still works.
func TestPrepareIsCalledBeforeTheShardMoves(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		prepared := make(chan int, 4)
		y := w.start(shard.Options{Prepare: func(ctx context.Context, i int) error {
			time.Sleep(30 * time.Second)
			prepared <- i
			return nil
		}})
		w.pass(20 * time.Second)
		assert.Len(w, x.owned(), 4)
		w.pass(15 * time.Second)
		assert.Len(w, prepared, 2)
		assert.Len(w, y.owned(), 2)
		w.shared()
	})
}

// This holds beside a worker that has the shards, and alone.
func TestRunEndsWhereTokensAreNotAboveTheFloor(t *testing.T) {
	for _, alone := range []bool{true, false} {
		inBubble(t, 2, func(w *fixture) {
			if !alone {
				w.began(1, shard.Options{})
			}
			c := w.Dial(pawl.Config{TokenFloor: fencing.Token(1 << 40)}, grpc.WithContextDialer(w.f.Dial))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := shard.Run(ctx, c, "jobs", 2, shard.Options{Session: lease.Options{TTL: ttl}}, func(context.Context, *shard.Held) error { return nil })
			assert.ErrorIs(w, err, pawl.ErrTokenFloor)
			w.pass(5 * time.Second)
			if !alone {
				w.shared()
			}
		})
	}
}
