package session

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
)

// recorder keeps events, and what is logged.
type recorder struct {
	mu  sync.Mutex
	all []observe.Event
	log lines
}

func (e *recorder) Observe(_ context.Context, ev observe.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// events returns the events of sessions since the last call.
func (e *recorder) events() (all []observe.Event) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		switch ev.(type) {
		case observe.MemberSwitched, observe.MemberServes:
		default:
			all = append(all, ev)
		}
	}
	e.all = nil
	return all
}

// lines is a log. Its String waits, in a bubble, until what was logged is written.
type lines struct{ syncbuffer.Buffer }

func (l *lines) String() string {
	synctest.Wait()
	return l.Buffer.String()
}

// count is how often text is in it.
func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// host is a new client whose observer is e.
func (e *recorder) host(t *testing.T, r *rig) Host {
	t.Helper()
	c, err := cluster.Dial(context.Background(), cluster.Config{
		Endpoints: r.Endpoints(), DialOptions: []grpc.DialOption{r.DialOption(), opnames.DialOption()},
		Observer: e, Logger: slog.New(slog.NewTextHandler(&e.log, nil)),
	})
	require.NoError(t, err)
	h := Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Cleanup: &cleanup.Group{}, Namespace: "ns"}
	t.Cleanup(func() {
		h.Cleanup.Close(2 * time.Second)
		h.Watches.Close()
		require.NoError(t, c.Close())
	})
	return h
}

func TestASessionIsReportedFromItsGrantToItsEnd(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		e := &recorder{}
		s := sessionOn(t, e.host(t, r), lease.Options{TTL: 12 * time.Second, Owner: "me"})
		all := e.events()
		require.Len(t, all, 1)
		granted := all[0].(observe.SessionGranted)
		assert.Equal(t, s.ID(), granted.Lease)
		assert.Equal(t, "me", granted.Owner)
		assert.Equal(t, 12*time.Second, granted.TTL)
		assert.False(t, granted.Resumed)
		assert.Equal(t, 10*time.Second, granted.Left())
		sleep(2 * time.Second)
		assert.Equal(t, 8*time.Second, granted.Left(), "it looks at the clock at the call")

		sleep(1500 * time.Millisecond)
		all = e.events()
		require.Len(t, all, 1)
		renewed := all[0].(observe.SessionRenewed)
		assert.Equal(t, observe.SessionRenewed{
			Lease: s.ID(), Member: renewed.Member, RoundTrip: 0, Was: 7 * time.Second, Left: 10 * time.Second,
		}, renewed)
		assert.Contains(t, r.Endpoints(), renewed.Member)

		require.NoError(t, s.Close(t.Context()))
		all = e.events()
		require.Len(t, all, 1)
		assert.ErrorIs(t, all[0].(observe.SessionClosed).Err, lease.ErrClosed)
		assert.Zero(t, granted.Left())
		for _, line := range []string{"session begins", "session ended", fmt.Sprintf("lease=%x", s.ID()), "ttl=12s", "owner=me"} {
			assert.Contains(t, e.log.String(), line)
		}
	})
}

func TestARenewalIsReportedWithItsRoundTrip(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		e := &recorder{}
		sessionOn(t, e.host(t, r), lease.Options{TTL: 12 * time.Second})
		r.Member(0).SetDelay(etcdfake.Fixed(40*time.Millisecond), etcdfake.Fixed(60*time.Millisecond))
		e.events()
		sleep(4 * time.Second)
		all := e.events()
		require.Len(t, all, 1)
		renewed := all[0].(observe.SessionRenewed)
		assert.Equal(t, 200*time.Millisecond, renewed.RoundTrip, "a renewal and a read, there and back")
		assert.Equal(t, 6800*time.Millisecond, renewed.Was)
		assert.Equal(t, 9800*time.Millisecond, renewed.Left, "counted from the sending")
	})
}

func TestAHedgeIsReportedWithTheSlowMemberAndTheOther(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		e := &recorder{}
		sessionOn(t, e.host(t, r), lease.Options{TTL: 12 * time.Second})
		noKeepAlive(r.Cluster, r.Member(0))
		noKeepAlive(r.Cluster, r.Member(1))
		e.events()
		sleep(3*time.Second + 400*time.Millisecond)
		all := e.events()
		require.Len(t, all, 1)
		hedged := all[0].(observe.SessionHedged)
		assert.Equal(t, 300*time.Millisecond, hedged.After)
		assert.ElementsMatch(t, r.Endpoints(), []string{hedged.Slow, hedged.Member})
		r.LiftAll()
	})
}

// Of ten seconds of validity, less than half is left one nanosecond after the fifth.
func TestASessionIsInJeopardyOnceLessThanHalfIsLeft(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		e := &recorder{}
		s := sessionOn(t, e.host(t, r), lease.Options{TTL: 12 * time.Second})
		jeopardies := func() (some []observe.SessionInJeopardy) {
			for _, ev := range e.events() {
				if j, ok := ev.(observe.SessionInJeopardy); ok {
					some = append(some, j)
				}
			}
			return some
		}
		for range 2 { // each time again
			sleep(s.validFor() - 5*time.Second) // a renewal is sent in between
			r.BlackHole()
			sleep(s.validFor() - 5*time.Second)
			require.Equal(t, 5*time.Second, s.validFor())
			assert.Empty(t, jeopardies(), "half is left")
			sleep(1)
			some := jeopardies()
			require.Len(t, some, 1)
			assert.Equal(t, 5*time.Second-1, some[0].Left)
			assert.Equal(t, s.ID(), some[0].Lease)
			sleep(time.Second)
			assert.Empty(t, jeopardies(), "it was reported")
			r.Heal()
			sleep(3 * time.Second)
			require.NoError(t, s.Err())
			require.Greater(t, s.validFor(), 5*time.Second, "renewed")
		}
		assert.Contains(t, e.log.String(), `level=WARN msg="session in jeopardy"`)
	})
}

func TestALostSessionIsReportedWithItsCause(t *testing.T) {
	for want, strike := range map[error]func(*rig, *Session){
		lease.ErrRevoked: func(r *rig, s *Session) { r.Revoke(s.ID()) },
		lease.ErrExpired: func(r *rig, _ *Session) { r.BlackHole() },
	} {
		t.Run(want.Error(), func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				e := &recorder{}
				s := sessionOn(t, e.host(t, r), lease.Options{})
				sleep(time.Second)
				e.events()
				strike(r, s)
				sleep(20 * time.Second)
				requireEnded(t, s, want)
				all := e.events()
				oneCause(t, all[len(all)-1].(observe.SessionLost).Err, want)
				assert.Contains(t, e.log.String(), `level=WARN msg="session ended"`)
				r.Heal()
			})
		})
	}
}

func TestASessionThatIsHandedOverIsReportedAsClosedAndThenResumed(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		e := &recorder{}
		h := e.host(t, r)
		first := sessionOn(t, h, lease.Options{})
		handle := first.Detach()
		second := sessionOn(t, h, lease.Options{Resume: handle})
		all := e.events()
		require.Len(t, all, 3)
		assert.ErrorContains(t, all[1].(observe.SessionClosed).Err, "detached")
		granted := all[2].(observe.SessionGranted)
		assert.True(t, granted.Resumed)
		assert.Equal(t, second.ID(), granted.Lease)
	})
}

func TestOfASessionThatNeverBeganNothingIsReported(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		e := &recorder{}
		h := e.host(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.Inject(etcdfake.Rule{Op: "put session key", Lose: true})
		_, err := Grant(ctx, h, lease.Options{})
		require.Error(t, err)
		sleep(time.Minute)
		assert.Empty(t, e.events())
		r.LiftAll()
	})
}
