package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// crowd is many workers on one client, so that their writes travel together, on some names.
type crowd struct {
	*testing.T
	f     *etcdfake.Cluster
	names []*seat
	most  int // writes in one request

	mu      sync.Mutex
	longest time.Duration // an acquisition that succeeded
	lost    int           // that failed
}

// seat is a name, and which client's Acquire of it returned.
type seat struct {
	name string
	mu   sync.Mutex
	held int
	last fencing.Token
}

// crowdOf runs work for so many workers on so many names, on three members that are a round
// trip of half a millisecond away.
func crowdOf(t *testing.T, workers, names int, fault *etcdfake.Rule, work func(c *crowd, s *pawl.Session, r *rand.Rand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{T: t, f: etcdfake.New(etcdfake.Options{Members: 3})}
		t.Cleanup(c.f.Close)
		for i := range 3 {
			c.f.Member(i).SetDelay(etcdfake.Fixed(200*time.Microsecond), etcdfake.Fixed(200*time.Microsecond))
		}
		for i := range names {
			c.names = append(c.names, &seat{name: fmt.Sprint("name", i)})
		}
		client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: c.f.Endpoints(), DialOptions: append([]grpc.DialOption{c.f.DialOption(), opnames.DialOption()}, lean()...)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		var sessions []*pawl.Session
		for range 4 {
			s, err := client.NewSession(t.Context(), lease.Options{TTL: time.Minute})
			require.NoError(t, err)
			sessions = append(sessions, s)
		}
		synctest.Wait()
		c.f.Inject(etcdfake.Rule{Method: "Txn", Match: c.count})
		if fault != nil {
			c.f.Inject(*fault)
		}
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() { work(c, sessions[i%len(sessions)], rand.New(rand.NewPCG(uint64(i), uint64(names)))) })
		}
		all.Wait()
		c.f.LiftAll()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(t, c.f.Keys("name"), "left")
		for _, s := range sessions {
			assert.NoError(t, s.Err())
		}
	})
}

func (c *crowd) count(q etcdfake.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(c.most, len(q.Ops()))
	return false
}

// turn takes some name, sees that nobody else has it, and gives it back.
func (c *crowd) turn(s *pawl.Session, r *rand.Rand) error {
	seat := c.names[r.IntN(len(c.names))]
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 5*time.Minute)
	defer cancel()
	began := time.Now()
	h, err := lock.New(s, seat.name, lock.Options{}).Acquire(ctx)
	c.mu.Lock()
	if err != nil {
		c.lost++
	} else {
		c.longest = max(c.longest, time.Since(began))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	seat.mu.Lock()
	seat.held++
	assert.Equal(c, 1, seat.held, "two hold %s", seat.name)
	assert.Greater(c, h.Token(), seat.last, "tokens of %s", seat.name)
	seat.last = h.Token()
	seat.mu.Unlock()
	time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
	seat.mu.Lock()
	seat.held--
	seat.mu.Unlock()
	for err = h.Release(ctx); errors.Is(err, kv.ErrUnknown) && ctx.Err() == nil; err = h.Release(ctx) {
	}
	return err
}

// Rules G2, A3: many workers on few names and on many, and no fault: each gets its turn without
// the read that finds what a watch missed, which comes after a quarter of a minute.
// rule: G2
func TestACrowdOnFewNamesAndOnMany(t *testing.T) {
	for _, names := range testscale.Of([]int{1, 30}, []int{1, 2, 8, 30, 300}) {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			crowdOf(t, 60, names, nil, func(c *crowd, s *pawl.Session, r *rand.Rand) {
				for range 20 {
					assert.NoError(c, c.turn(s, r))
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				assert.Less(c, c.longest, 2*time.Second, "a wake-up was lost")
				if names > 8 {
					assert.Greater(c, c.most, 4, "their writes did not travel together")
				}
			})
		})
	}
}

// The same, and one request in twenty fails, in one way each.
func TestACrowdWhoseRequestsFail(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"answer lost":         {Err: rpctypes.ErrGRPCTimeout},
		"request lost":        {Lose: true, Err: rpctypes.ErrGRPCTimeout},
		"late":                {Late: 300 * time.Millisecond, Err: rpctypes.ErrGRPCTimeout},
		"no leader":           {Lose: true, Err: rpctypes.ErrGRPCNoLeader},
		"too many operations": {Lose: true, Err: rpctypes.ErrGRPCTooManyOps},
		"answer delayed":      {HoldAnswer: 700 * time.Millisecond},
	} {
		for _, names := range testscale.Of([]int{3}, []int{3, 60}) {
			t.Run(fmt.Sprint(name, ", ", names), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(names)))
				var mu sync.Mutex
				rule.Method = "Txn"
				rule.Match = func(q etcdfake.Request) bool {
					mu.Lock()
					defer mu.Unlock()
					return r.IntN(20) == 0 && (len(q.Ops()) > 1 || rule.Err != rpctypes.ErrGRPCTooManyOps)
				}
				crowdOf(t, 40, names, &rule, func(c *crowd, s *pawl.Session, r *rand.Rand) {
					for range 10 {
						assert.NoError(c, c.turn(s, r))
					}
				})
			})
		}
	}
}
