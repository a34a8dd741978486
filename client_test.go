//lint:file-ignore SA1012 that nil contexts are refused is tested

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"google.golang.org/grpc"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// inBubble runs f in a bubble with a cluster of three and a client. That the bubble ends proves that no
// goroutine is left.
func inBubble(t *testing.T, cfg pawl.Config, f func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		c := dial(t, fake, cfg)
		f(t, fake, c)
	})
}

func dial(t *testing.T, fake *etcdfake.Cluster, cfg pawl.Config) *pawl.Client {
	t.Helper()
	cfg.Endpoints = fake.Endpoints()
	cfg.DialOptions = append(cfg.DialOptions, fake.DialOption())
	c, err := pawl.Dial(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestBadConfigurationIsRefusedWithTheFieldsName(t *testing.T) {
	fake := etcdfake.New(etcdfake.Options{})
	defer fake.Close()
	good := pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}}
	for want, spoil := range map[string]func(*pawl.Config){
		"endpoint":                     func(c *pawl.Config) { c.Endpoints = nil },
		"Config.Namespace":             func(c *pawl.Config) { c.Namespace = strings.Repeat("x", 1025) },
		"Config.TokenFloor":            func(c *pawl.Config) { c.TokenFloor = -1 },
		"Options.TTL":                  func(c *pawl.Config) { c.Session.TTL = time.Second },
		"Options.Margin":               func(c *pawl.Config) { c.Session.Margin = time.Second },
		"Options.Owner":                func(c *pawl.Config) { c.Session.Owner = strings.Repeat("x", 2000) },
		"password":                     func(c *pawl.Config) { c.Password = "secret" },
		"SyncEvery":                    func(c *pawl.Config) { c.SyncEvery = -1 },
		"Config.Session.Resume is set": func(c *pawl.Config) { c.Session.Resume = aHandle(t) },
	} {
		cfg := good
		spoil(&cfg)
		c, err := pawl.Dial(context.Background(), cfg)
		require.Error(t, err, want)
		assert.Nil(t, c)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
		assert.True(t, strings.HasPrefix(err.Error(), "pawl: dial: "), err.Error())
	}
	_, err := pawl.Dial(nil, good) //nolint:staticcheck // what a caller may do
	assert.ErrorContains(t, err, "nil context")
}

// aHandle is one that is not zero.
func aHandle(t *testing.T) (h lease.Handle) {
	const text = `pawl1.eyJsZWFzZSI6MSwiY2x1c3RlciI6MiwidHRsIjozLCJrZXkiOiJhdz09IiwiY3JlYXRlIjozLCJtb2QiOjMsIm5leHQiOjF9`
	require.NoError(t, h.UnmarshalText([]byte(text)))
	return h
}

// Nil, zero and closed clients and sessions, and nil contexts, give clear errors and no panic.
func TestNilAndZeroValuesGiveErrorsAndNoPanic(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]*pawl.Client{"nil": nil, "zero": {}} {
		_, err := c.Session(ctx)
		assert.ErrorContains(t, err, "pawl: session: ", name)
		_, err = c.NewSession(ctx, lease.Options{})
		assert.ErrorContains(t, err, "pawl: session: ", name)
		_, err = c.KV().Txn(ctx, kv.Txn{Then: []kv.Op{kv.Get("k")}})
		assert.Error(t, err, name)
		assert.NoError(t, c.Close(), name)
		assert.NoError(t, c.Close(), name)
		_, err = hooks.HostOf(c)
		assert.Error(t, err, name)
	}
	for name, s := range map[string]*pawl.Session{"nil": nil, "zero": {}} {
		require.Error(t, s.Err(), name)
		assert.Zero(t, s.ID())
		assert.Zero(t, s.TTL())
		assert.True(t, s.Deadline().IsZero())
		<-s.Done()
		assert.Error(t, s.Context().Err())
		assert.Equal(t, s.Err(), context.Cause(s.Context()))
		assert.Error(t, s.Close(ctx))
		assert.Equal(t, lease.Handle{}, s.Detach())
		assert.Nil(t, hooks.SessionOf(s))
	}
	inBubble(t, pawl.Config{}, func(t *testing.T, _ *etcdfake.Cluster, c *pawl.Client) {
		_, err := c.Session(nil) //nolint:staticcheck // what a caller may do
		assert.ErrorContains(t, err, "nil context")
		_, err = c.NewSession(nil, lease.Options{}) //nolint:staticcheck // the same
		assert.ErrorContains(t, err, "nil context")
		s, err := c.Session(context.Background())
		require.NoError(t, err)
		assert.ErrorContains(t, s.Close(nil), "nil context") //nolint:staticcheck // the same
		require.NoError(t, s.Err(), "and nothing was done")
	})
}

func TestAClosedClientSaysSo(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, _ *etcdfake.Cluster, c *pawl.Client) {
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		_, err := c.Session(context.Background())
		assert.ErrorIs(t, err, lease.ErrClosed)
		_, err = c.NewSession(context.Background(), lease.Options{})
		assert.ErrorIs(t, err, lease.ErrClosed)
		_, err = c.KV().Txn(context.Background(), kv.Txn{Then: []kv.Op{kv.Get("k")}})
		assert.ErrorIs(t, err, lease.ErrClosed)
		_, err = hooks.HostOf(c)
		assert.ErrorIs(t, err, lease.ErrClosed)
	})
}

// The client's session is shared, granted once however many callers there are, and again after it has
// ended.
func TestTheClientsSessionIsGrantedOnceAndAgainAfterItsEnd(t *testing.T) {
	inBubble(t, pawl.Config{Session: lease.Options{TTL: 6 * time.Second, Owner: "me"}}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		fake.Inject(etcdfake.Rule{Method: "LeaseGrant", HoldAnswer: 200 * time.Millisecond})
		ask := func() *pawl.Session {
			var mu sync.Mutex
			var wg sync.WaitGroup
			seen := map[*pawl.Session]bool{}
			for range 50 {
				wg.Go(func() {
					s, err := c.Session(context.Background())
					if assert.NoError(t, err) {
						mu.Lock()
						seen[s] = true
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			require.Len(t, seen, 1)
			for s := range seen {
				require.NoError(t, s.Err())
				return s
			}
			return nil
		}
		first := ask()
		assert.Equal(t, 1, fake.Counts().Received["LeaseGrant"])
		assert.Equal(t, 6*time.Second, first.TTL())
		fake.Revoke(first.ID())
		synctest.Wait()
		second := ask()
		assert.NotSame(t, first, second)
		assert.Equal(t, 2, fake.Counts().Received["LeaseGrant"])
		require.ErrorIs(t, first.Err(), lease.ErrRevoked)
		require.NoError(t, second.Close(context.Background()))
		assert.NotSame(t, second, ask())
	})
}

func TestACallerWhoseContextEndsLeavesTheOthersGrantAlone(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		fake.Inject(etcdfake.Rule{Method: "LeaseGrant", HoldAnswer: 2 * time.Second, Times: 1})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.Session(context.Background())
			assert.NoError(t, err)
		})
		synctest.Wait()
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, why)
		defer cancel()
		began := time.Now()
		_, err := c.Session(ctx)
		assert.Equal(t, time.Second, time.Since(began))
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a context's end is matched too")
		_, err = c.Session(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		wg.Wait()
	})
}

// If the caller that grants the session gives up, the next caller grants it.
func TestWhenTheGrantersContextEndsTheNextCallerGrants(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		fake.Inject(etcdfake.Rule{Method: "LeaseGrant", Lose: true, Times: 1})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.Session(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		s, err := c.Session(context.Background())
		require.NoError(t, err)
		require.NoError(t, s.Err())
		wg.Wait()
	})
}

// Rule K4: another cluster, or a revision that went back, ends every session of the client, and no
// others are granted.
func TestAChangedClusterEndsAllSessionsAndGrantsNoMore(t *testing.T) {
	for name, change := range map[string]func(*etcdfake.Cluster){
		"cluster id": func(f *etcdfake.Cluster) {
			for _, m := range f.Members() {
				m.SetClusterID(4711)
			}
		},
		"revision": func(f *etcdfake.Cluster) {
			f.Inject(etcdfake.Rule{Method: "Txn", Edit: func(_ etcdfake.Request, m etcdapi.Message) { m.(*pb.TxnResponse).Header.Revision = 1 }})
		},
	} {
		inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
			own, err := c.Session(context.Background())
			require.NoError(t, err)
			other, err := c.NewSession(context.Background(), lease.Options{TTL: 300 * time.Second})
			require.NoError(t, err)
			change(fake)
			sleep(5 * time.Second)
			for _, s := range []*pawl.Session{own, other} {
				<-s.Done()
				require.ErrorIs(t, s.Err(), pawl.ErrClusterChanged, name)
				require.NotErrorIs(t, s.Err(), lease.ErrExpired)
			}
			_, err = c.Session(context.Background())
			require.ErrorIs(t, err, pawl.ErrClusterChanged)
			_, err = c.NewSession(context.Background(), lease.Options{})
			require.ErrorIs(t, err, pawl.ErrClusterChanged)
			assert.Equal(t, 2, fake.Counts().Received["LeaseGrant"])
		})
	}
}

func TestCloseEndsAndRevokesEverySession(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		var all []*pawl.Session
		for range 20 {
			s, err := c.NewSession(context.Background(), lease.Options{})
			require.NoError(t, err)
			all = append(all, s)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { assert.NoError(t, c.Close()) })
		}
		wg.Wait()
		for _, s := range all {
			require.ErrorIs(t, s.Err(), lease.ErrClosed)
			require.NoError(t, s.Close(context.Background()))
		}
		assert.Empty(t, fake.Leases())
	})
}

// A client that makes many sessions, one after the other, does not keep them all.
func TestAClientForgetsSessionsThatHaveEnded(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, _ *etcdfake.Cluster, c *pawl.Client) {
		const n = 200
		var all []weak.Pointer[session.Session]
		for range n {
			s, err := c.NewSession(context.Background(), lease.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Close(context.Background()))
			all = append(all, weak.Make(hooks.SessionOf(s)))
		}
		time.Sleep(time.Second) // the cancels of their watches have been sent
		runtime.GC()
		kept := slices.DeleteFunc(all, func(p weak.Pointer[session.Session]) bool { return p.Value() == nil })
		assert.Less(t, len(kept), n/10)
	})
}

// Close takes about 2 s in a black hole, and names what was left.
func TestCloseInABlackHoleTakesTwoSecondsAndNamesWhatWasLeft(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		s, err := c.NewSession(context.Background(), lease.Options{})
		require.NoError(t, err)
		fake.BlackHole()
		began := time.Now()
		err = c.Close()
		assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond)
		require.ErrorContains(t, err, fmt.Sprintf("lease %x", s.ID()))
		assert.Equal(t, err, c.Close(), "the same answer")
		require.ErrorIs(t, s.Err(), lease.ErrClosed)
		require.ErrorIs(t, s.Close(context.Background()), kv.ErrUnknown)
	})
}

// Close waits for calls that are making a session. The leases that they were granted are revoked, or
// named in the error.
func TestCloseEndsSessionsThatAreBeingMade(t *testing.T) {
	for _, method := range []string{"LeaseGrant", "Txn"} {
		for _, rule := range []etcdfake.Rule{
			{Method: method, Hang: true}, {Method: method, HoldAnswer: time.Second}, {Method: method, Lose: true},
		} {
			inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
				fake.Inject(rule)
				made := make(chan error, 1)
				go func() { // ends with the call, which Close ends
					_, err := c.NewSession(context.Background(), lease.Options{TTL: 300 * time.Second})
					made <- err
				}()
				sleep(500 * time.Millisecond)
				began := time.Now()
				err := c.Close()
				assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond)
				synctest.Wait()
				select {
				case err := <-made:
					require.ErrorIs(t, err, lease.ErrClosed)
					require.NotErrorIs(t, err, context.Canceled, "nobody cancelled the caller's context")
				default:
					t.Fatal("the call goes on after Close")
				}
				for _, l := range fake.Leases() {
					require.ErrorContains(t, err, fmt.Sprintf("lease %x", l.ID), "left without a word")
				}
			})
		}
	}
}

// Hazard S18: sessions come and go, and nothing grows.
func TestAThousandSessionsLeaveNothing(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		for range 1000 {
			s, err := c.NewSession(context.Background(), lease.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Close(context.Background()))
		}
		assert.Empty(t, fake.Leases())
		assert.Empty(t, fake.Keys(""))
	})
}

// Rule N6 through the public types.
func TestASessionIsHandedToAnotherProcessAsText(t *testing.T) {
	inBubble(t, pawl.Config{Namespace: "ns/"}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		s, err := c.Session(context.Background())
		require.NoError(t, err)
		text, err := s.Detach().MarshalText()
		require.NoError(t, err)
		require.ErrorIs(t, s.Err(), lease.ErrClosed)

		var h lease.Handle
		require.NoError(t, h.UnmarshalText(text))
		next := dial(t, fake, pawl.Config{Namespace: "ns/"})
		r, err := next.NewSession(context.Background(), lease.Options{Resume: h})
		require.NoError(t, err)
		assert.Equal(t, s.ID(), r.ID())
		require.NoError(t, c.Close(), "the predecessor's end leaves the lease")
		sleep(time.Minute)
		require.NoError(t, r.Err())
		_, err = next.NewSession(context.Background(), lease.Options{Resume: h})
		require.ErrorIs(t, err, lease.ErrTakenOver)
	})
}

func TestSessionReportsWhatItsEngineReports(t *testing.T) {
	inBubble(t, pawl.Config{}, func(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) {
		began := time.Now()
		s, err := c.NewSession(context.Background(), lease.Options{TTL: 6 * time.Second})
		require.NoError(t, err)
		l, ok := fake.Lease(s.ID())
		require.True(t, ok)
		assert.Equal(t, l.TTL, s.TTL())
		assert.Equal(t, began.Add(5*time.Second), s.Deadline())
		require.NoError(t, s.Context().Err())
		fake.BlackHole()
		<-s.Done()
		assert.Equal(t, 5*time.Second, time.Since(began))
		require.ErrorIs(t, s.Err(), lease.ErrExpired)
		assert.Equal(t, s.Err(), context.Cause(s.Context()))
		assert.True(t, s.Deadline().IsZero())
	})
}
