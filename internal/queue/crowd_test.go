package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/observe"
)

// A crowd is many acquisitions of few sessions on one queue. Their requests are late or lost, or
// the answers are.
type crowd struct {
	*fixture
	pace, hold int // milliseconds, at the most

	mu      sync.Mutex
	rnd     *rand.Rand
	holders []*Acquisition
	wins    [2]int // of exclusive ones, and of shared ones
}

// A2, A5, A6, RW: at any time one of them holds, or several that share, whatever happens to their
// requests. Nothing is left, neither in the queue nor on the sessions' books.
// rule: RW2
func TestOfManyAcquisitionsOfFewSessionsOneHolds(t *testing.T) {
	var wins [2]int
	for seed := range racedetector.Of(3, testscale.Of[uint64](6, 100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				c := &crowd{fixture: w, rnd: rand.New(rand.NewPCG(seed, 0))}
				c.pace, c.hold = 20+c.n(600), 10+c.n(200)
				c.run([]*session.Session{w.session(), w.session()})
				wins[0] += c.wins[0]
				wins[1] += c.wins[1]
			})
		})
	}
	assert.NotZero(t, wins[0])
	assert.NotZero(t, wins[1])
}

func (c *crowd) run(sessions []*session.Session) {
	for _, r := range []request{isEnqueue, isEnqueue, isSettle, isQuery, isRelease, isUndo, isExplain} {
		c.fault(r)
	}
	var workers sync.WaitGroup
	for i := range 7 {
		workers.Go(func() { c.work(sessions[i%3/2]) }) // two of three use the first session
	}
	workers.Wait()
	c.f.LiftAll()
	time.Sleep(10 * time.Second) // what is late arrives
	for _, s := range sessions {
		c.release(c.acquire(s))
	}
	c.clear()
	for _, s := range sessions {
		assert.True(c, c.skipsOwn(c.began(s, c.queue())), "something is not settled")
	}
}

// fault makes some of the requests fail in some ways.
func (c *crowd) fault(r request) {
	for range 1 + c.n(3) {
		rule := r.rule([]etcdfake.Rule{
			{Delay: c.ms(500)},
			{HoldAnswer: c.ms(500)},
			{Late: c.ms(1000), Err: rpctypes.ErrGRPCTimeout},
			{Lose: true, Err: rpctypes.ErrGRPCTimeout},
			{Err: rpctypes.ErrGRPCTimeout},
			{Hang: true},
			{Lose: true},
		}[c.n(7)])
		percent := c.n(20)
		rule.Match = func(q etcdfake.Request) bool { return r.is(q) && c.n(100) < percent }
		c.f.Inject(rule)
	}
}

// work takes the lock again and again. Now and then it gives up soon, loses its key, or releases
// more than once.
func (c *crowd) work(s *session.Session) {
	for range 40 {
		time.Sleep(c.ms(c.pace))
		r := Request{}
		if c.n(2) == 0 {
			r = takingHandoffs(s)
		}
		q := c.queue()
		if q.Shared = c.n(3) == 0; q.Shared {
			r.Handoffs = false
		}
		r.Try = c.n(8) == 0
		ctx, cancel := context.WithTimeout(c.Context(), time.Millisecond+c.ms(1500)/time.Duration(1+c.n(20)))
		a, err := Acquire(ctx, s, r, q)
		cancel()
		if err != nil {
			continue
		}
		c.holds(a)
		time.Sleep(c.ms(c.hold))
		c.holdsNoLonger(a)
		switch c.n(12) {
		case 0:
			c.f.Delete(a.Key())
		case 1:
			if c.f.Get(a.Key()) != nil {
				c.f.Put(a.Key(), "another's", 0)
			}
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				ctx, cancel := context.WithTimeout(c.Context(), c.ms(400))
				defer cancel()
				_ = a.Release(ctx, errGivenBack)
			})
		}
		both.Wait()
	}
}

// holds records that a holds.
func (c *crowd) holds(a *Acquisition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.holders {
		if a.Mode() != observe.Shared || other.Mode() != observe.Shared {
			assert.Fail(c, "both hold", "%v and %v", other, a)
		}
	}
	assert.NoError(c, a.Err())
	c.holders = append(c.holders, a)
	if a.Mode() == observe.Shared {
		c.wins[1]++
	} else {
		c.wins[0]++
	}
}

func (c *crowd) holdsNoLonger(a *Acquisition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders = slices.DeleteFunc(c.holders, func(other *Acquisition) bool { return other == a })
}

func (c *crowd) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.IntN(n)
}

func (c *crowd) ms(n int) time.Duration { return time.Duration(c.n(n)) * time.Millisecond }
