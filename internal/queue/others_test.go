package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// others acquire and release other locks whenever the test writes something, so that the test's
// requests also contain their writes. Faults in the test's requests also affect them.
type others struct {
	w     *fixture
	n     int
	fa    fault
	work  sync.WaitGroup
	mu    sync.Mutex
	begun int // names that were used
	most  int // writes that were in one request
}

func newOthers(w *fixture, n int, fa fault) *others {
	if n == 0 {
		return nil
	}
	o := &others{w: w, n: n, fa: fa}
	w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.most = max(o.most, len(q.Ops()))
		return false
	}})
	return o
}

const othersName = "other"

// join makes c a client whose writes gather, and opens a session of the others on it.
func (o *others) join(c *pawl.Client) {
	if o == nil {
		return
	}
	own, err := c.NewSession(o.w.Context(), lease.Options{})
	require.NoError(o.w, err)
	synctest.Wait() // until all members have said what they are
	s := hooks.SessionOf(own)
	s.Host().Batch.Hold(time.Millisecond, o.n+1, func(w batch.Write) {
		if !strings.HasPrefix(w.Queue, othersName) {
			o.begin(s)
		}
	})
}

// begin makes each of the others take a lock and release it.
func (o *others) begin(s *session.Session) {
	o.mu.Lock()
	first := o.begun
	o.begun += o.n
	o.mu.Unlock()
	for i := range o.n {
		o.work.Go(func() { o.use(s, fmt.Sprint(othersName, first+i)) }) // end waits for it
	}
}

func (o *others) use(s *session.Session, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.w.Context()), 2*time.Minute)
	defer cancel()
	q, err := New("", name, false)
	assert.NoError(o.w, err)
	c, err := Acquire(ctx, s, Request{}, q)
	if err != nil {
		if s.Err() == nil {
			assert.True(o.w, o.fa.final && !o.fa.own(), "what nobody would answer otherwise, and nothing else, ends an acquisition: %v", err)
		}
		return
	}
	if c.Err() == nil {
		o.w.held(c)
	}
	time.Sleep(4 * time.Second) // what is late arrives
	for c.Release(ctx, errGivenBack) != nil && s.Err() == nil {
		if !assert.NoError(o.w, ctx.Err(), "a release that does not end") {
			return
		}
	}
}

// end waits for the others, and asserts that they have left nothing. met reports whether one
// request contained as many writes as it should.
func (o *others) end() (met bool) {
	if o == nil {
		return true
	}
	o.w.f.LiftAll()
	o.work.Wait()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	assert.Empty(o.w, o.w.f.Keys(othersName), "left by the others")
	assert.LessOrEqual(o.w, o.most, o.n+1)
	return o.most == o.n+1
}
