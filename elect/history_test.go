package elect_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaderview"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// A wire is one client's way to the cluster, which can be cut.
type wire struct {
	w     *fixture
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (l *wire) dial(ctx context.Context, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("cut")
	}
	c, err := l.w.Dial(ctx, addr)
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

// sever cuts the wire, or mends it.
func (l *wire) sever(cut bool) {
	l.mu.Lock()
	conns := l.conns
	l.cut, l.conns = cut, nil
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// A forced is a term that one of three candidates won, and how to reach its session.
type forced struct {
	term    *elect.Term
	session *pawl.Session
	wire    *wire
	at      time.Time // when it was won
}

// A contest is three candidates that win and lose one name.
type contest struct {
	w      *fixture
	mu     sync.Mutex
	terms  map[string]*elect.Term // by key
	last   fencing.Token
	leader chan forced
	// calm holds one element: the right to take a term away by force, or to read all terms. What an
	// operator does is at once at the server, but reaches its victim only when it is ordered to. So
	// nobody reads in between.
	calm chan struct{}
}

func newContest(w *fixture) *contest {
	c := &contest{w: w, terms: map[string]*elect.Term{}, leader: make(chan forced, 300), calm: make(chan struct{}, 1)}
	c.calm <- struct{}{}
	w.OnChange(c.changed)
	return c
}

// changed sees each change at the moment at which the cluster makes it. When a leader's key is
// deleted, the next one leads. So the leader's term must have ended by then, unless an operator
// deleted the key.
func (c *contest) changed(ch etcdfake.Change) {
	c.mu.Lock()
	tm := c.terms[ch.Key]
	c.mu.Unlock()
	if tm != nil && ch.Deleted && ch.Why != etcdfake.ByOperator {
		assert.Error(c.w.t, tm.Err(), "its key goes (%v), and the term is not over", ch.Why)
	}
}

// stand campaigns again and again, each time on a new session.
func (c *contest) stand(ctx context.Context) {
	l := &wire{w: c.w}
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: c.w.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(l.dial)}})
	if !assert.NoError(c.w.t, err) {
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		s, err := client.NewSession(ctx, lease.Options{TTL: 6 * time.Second})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		tm, err := elect.New(s, "e", elect.Options{}).Campaign(ctx, []byte("v"))
		if err == nil {
			c.won(forced{tm, s, l, time.Now()})
			select {
			case <-tm.Done():
			case <-ctx.Done():
			}
			time.Sleep(10 * time.Millisecond) // so that the end of its session does not overtake a resignation
			l.sever(false)
		}
		_ = s.Close(ctx)
	}
}

func (c *contest) won(f forced) {
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Greater(c.w.t, f.term.Token(), c.last)
	c.last = f.term.Token()
	c.terms[f.term.Key()] = f.term
	c.leader <- f
}

// check reads every term that there was: at most one is valid.
func (c *contest) check() {
	<-c.calm
	defer func() { c.calm <- struct{}{} }()
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.terms))
	c.mu.Unlock()
	valid := 0
	for _, tm := range all {
		if tm.Err() == nil {
			valid++
		}
	}
	assert.LessOrEqual(c.w.t, valid, 1)
}

// deed does to f what an operator does, and returns when f has learned of it. f learns of it at
// once, unless its key is so new that it is not watched yet. If the cluster has just compacted its
// history, f learns of it with the next renewal.
func (c *contest) deed(f forced, compacted bool, do func()) {
	<-c.calm
	defer func() { c.calm <- struct{}{} }()
	do()
	synctest.Wait()
	if f.term.Err() == nil {
		time.Sleep(max(0, session.ArmDelay-time.Since(f.at)))
		synctest.Wait()
	}
	if f.term.Err() == nil && compacted {
		time.Sleep(f.session.TTL() / 4)
		synctest.Wait()
	}
	assert.Error(c.w.t, f.term.Err())
}

// Three candidates survive two hundred forced losses. There are never two terms at once, tokens
// rise, and each loss is reported with its cause. What Observe says of it all is true for a quick
// consumer and for a slow one.
// rule: K1
func TestThreeCandidatesOverTwoHundredLosses(t *testing.T) {
	losses := racedetector.Of(50, 200)
	rnd := rand.New(rand.NewPCG(testscale.Seed(t), 2))
	inBubble(t, func(w *fixture) {
		c := newContest(w)
		eyes := w.client()
		views := []*leaderview.Viewer{w.observe(context.Background(), eyes, "e", 0), w.observe(context.Background(), eyes, "e", 500*time.Millisecond)}
		var stops []func()
		for range 3 {
			stops = append(stops, w.background(c.stand))
		}
		stops = append(stops, w.background(func(ctx context.Context) {
			for ctx.Err() == nil {
				c.check()
				time.Sleep(3 * time.Millisecond)
			}
		}))
		for i := range losses {
			f := <-c.leader
			time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
			compacted := i%10 == 0
			if compacted {
				w.Compact(w.Revision())
			}
			c.lose(f, compacted, rnd.IntN(6))
			c.check()
		}
		for _, stop := range stops {
			stop()
		}
		time.Sleep(20 * time.Second)
		assert.Empty(t, w.Keys(""))
		assert.Empty(t, w.Leases())
		for _, v := range views {
			seen := v.Seen()
			leaderview.RequireTrue(t, seen, w.History(), "e/")
			assert.Zero(t, seen[len(seen)-1].Token, "nobody leads at last")
		}
		assert.GreaterOrEqual(t, len(views[0].Seen()), losses)
	})
}

// lose takes the term from f, in one of six ways, and checks what it reports.
func (c *contest) lose(f forced, compacted bool, how int) {
	w := c.w
	want := [...]error{lease.ErrRevoked, elect.ErrKeyDeleted, elect.ErrKeyOverwritten, lease.ErrExpired, lease.ErrClosed, elect.ErrResigned}[how]
	switch want {
	case lease.ErrRevoked:
		c.deed(f, compacted, func() { w.Revoke(f.session.ID()) })
	case elect.ErrKeyDeleted:
		c.deed(f, compacted, func() { w.Delete(f.term.Key()) })
	case elect.ErrKeyOverwritten:
		c.deed(f, compacted, func() { w.Put(f.term.Key(), "foreign", 0) })
	case lease.ErrExpired:
		f.wire.sever(true)
	case lease.ErrClosed:
		assert.NoError(w.t, f.session.Close(w.ctx))
	case elect.ErrResigned:
		assert.NoError(w.t, f.term.Resign(w.ctx))
	}
	select {
	case <-f.term.Done():
	case <-time.After(10 * time.Second):
		assert.Fail(w.t, "not noticed", "%v", want)
	}
	err := f.term.Err()
	if want == lease.ErrRevoked && errors.Is(err, elect.ErrKeyDeleted) {
		want = elect.ErrKeyDeleted // the key went with its lease, and its watch may say so first
	}
	assert.ErrorIs(w.t, err, want)
	if want != elect.ErrResigned {
		assert.ErrorIs(w.t, err, elect.ErrLost)
		assert.Equal(w.t, 1, causes(err), "%v", err)
	}
}
