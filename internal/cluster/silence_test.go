package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// linked runs f in a bubble with a cluster of n members whose connections exist. dials counts the
// connections.
func linked(t *testing.T, n int, f func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: n})
		t.Cleanup(fake.Close)
		dials := new(atomic.Int64)
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dials.Add(1)
				return fake.Dial(ctx, addr)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		synctest.Wait()
		f(t, fake, c, dials)
	})
}

// rule: C4
func TestARequestOnAMuteConnectionIsRepeatedElsewhereWithinHalfASecond(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(1).BlackHole() // new connections are mute too
		for range 3 {
			start := time.Now()
			_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(start), 500*time.Millisecond)
		}
	})
}

// When all connections have turned mute at once, the next try goes to the first that was replaced, and
// not to one that is being examined.
// rule: C4
func TestASilentMemberIsPickedLast(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(1).Swallow()
		mute := member(t, c, fake.Member(1).Endpoint())
		picked := func() (times int) {
			for range 6 {
				if c.Pick() == mute {
					times++
				}
			}
			return times
		}
		c.Go(func() { _, _ = c.Txn(c.life, Request{Op: "txn", On: mute}, writing()) })
		time.Sleep(patience - time.Millisecond)
		assert.NotZero(t, picked(), "it was not silent for long")
		time.Sleep(patience / 2) // less than it takes to give up the member's tries, which would grade it down
		assert.Zero(t, picked())
	})
}

// rule: C4
func TestAMemberWhoseConnectionWasReplacedHasNotFailed(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		for _, m := range fake.Members() {
			m.Swallow() // so that no other member answers first
		}
		first := c.list()[0]
		_, err := c.Txn(t.Context(), Request{Op: "txn", On: first}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		assert.Zero(t, first.coolUntil.Load())
		assert.Same(t, first, c.Pick(), "the others are still silent")
	})
}

// rule: C4
func TestAWriteOnAMuteConnectionThatMayHaveArrivedIsUnknown(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(0).Swallow()
		start := time.Now()
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		require.ErrorContains(t, err, "silent")
		assert.Less(t, time.Since(start), time.Second)
		_, err = c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
	})
}

// The answer to what was sent before says nothing of what was sent after it.
// rule: C4
func TestTheAnswerToAnEarlierRequestDoesNotHideThatALaterOneIsSwallowed(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Inject(etcdfake.Rule{Method: "Txn", HoldAnswer: 10 * time.Millisecond, Times: 1})
		c.Go(func() { _, err := c.Txn(c.life, Request{Op: "txn"}, writing()); assert.NoError(t, err) })
		time.Sleep(5 * time.Millisecond)
		fake.Member(0).SwallowRequests()
		start := time.Now()
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		require.ErrorContains(t, err, "silent")
		assert.LessOrEqual(t, time.Since(start), 500*time.Millisecond)
	})
}

// A try that is given up because another member answers may have been applied.
// rule: C4
func TestATryThatIsGivenUpForAnotherMemberIsUnknown(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(1).BlackHole() // new connections are mute too
		_, err := c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, fake.Member(1).Endpoint())}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		require.ErrorContains(t, err, status.Convert(errMute).Message())
	})
}

// When all members answer at once, as after a fault of the client's own network, none is blamed because
// another one was heard first.
// rule: C4
func TestATryIsGivenUpOneStepAfterAnotherMembersAnswer(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		time.Sleep(time.Second) // nothing is watched
		for _, m := range fake.Members() {
			m.Mute()
		}
		answered := make(chan error)
		go func() {
			_, err := c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, fake.Member(0).Endpoint())}, writing())
			answered <- err
		}()
		time.Sleep(2*patience - 10*time.Millisecond)
		fake.Member(1).Heal()
		fake.Member(2).Heal()
		time.Sleep(20 * time.Millisecond)
		fake.Member(0).Heal()
		assert.NoError(t, <-answered)
	})
}

// rule: C4
func TestAnExaminationAsksTheMemberAndTwoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 5})
		t.Cleanup(fake.Close)
		var mu sync.Mutex
		asked := map[string]int{}
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			fake.DialOption(),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if method == healthpb.Health_Check_FullMethodName {
					mu.Lock()
					asked[cc.Target()]++
					mu.Unlock()
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		synctest.Wait()
		mu.Lock()
		clear(asked)
		mu.Unlock()
		mute := member(t, c, fake.Member(0).Endpoint())
		mute.spareAt = time.Now().Add(time.Hour) // so that no spare makes a health call
		fake.Member(0).BlackHole()
		_, err = c.Txn(t.Context(), Request{Op: "txn", On: mute}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		mu.Lock()
		defer mu.Unlock()
		assert.Len(t, asked, 3)
		for who, times := range asked {
			assert.Equal(t, 1, times, who)
		}
		assert.Contains(t, asked, mute.line.Load().conn.Target())
	})
}

// A member that was only slow answers on its connection and on a spare at the same time.
// rule: C4
func TestAConnectionThatIsHeardAgainStays(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		old, before := c.list()[0].line.Load(), dials.Load()
		fake.Member(0).BlackHole()
		time.AfterFunc(5*patience, fake.Member(0).Heal)
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Same(t, old, c.list()[0].line.Load())
		assert.Equal(t, before+1, dials.Load(), "one spare")
	})
}

// rule: C4
func TestConnectionsAreReplacedTwoToThirtySecondsApart(t *testing.T) {
	linked(t, 1, func(t *testing.T, _ *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		k := c.list()[0]
		replace := func(times int) (gaps []time.Duration) {
			for last := time.Now(); len(gaps) < times; last = time.Now() {
				for !k.mayOpen() {
					time.Sleep(time.Second)
				}
				spare, err := k.newLine()
				require.NoError(t, err)
				k.swap(k.line.Load(), spare, "as if it were mute")
				gaps = append(gaps, time.Since(last)/time.Second)
			}
			return gaps
		}
		require.Equal(t, []time.Duration{0, 2, 4, 8, 16, 30, 30}, replace(7))
		time.Sleep(3 * maxSwap) // nothing fails meanwhile
		require.Equal(t, []time.Duration{0, 2, 4}, replace(3))
	})
}

// rule: C4
func TestSilenceAloneEndsNoTry(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		slow := etcdfake.Fixed(time.Second)
		for _, m := range fake.Members() {
			m.SetDelay(slow, slow)
		}
		for range 6 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err, "slow members answer, each as late as the others")
		}
	})
}

// rule: C4
func TestASlowMemberCostsFewConnections(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		slow := etcdfake.Fixed(400 * time.Millisecond)
		fake.Member(0).SetDelay(slow, slow)
		for began := time.Now(); time.Since(began) < 5*time.Minute; {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, dials.Load(), int64(3), "one at first, and while its round trip was not known")
	})
}

// Servers ping their clients. The acknowledgement may be the last thing that is sent, and gets no
// answer.
// rule: C4
func TestAnIdleConnectionIsNotExamined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		cfg := ss.config()
		var wrote atomic.Int64
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := ss.dial(ctx, addr)
			return counting{c, &wrote}, err
		}))
		c := ss.connect(cfg)
		for range 20 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		before := wrote.Load()
		time.Sleep(8 * time.Second) // less than the pings of gRPC are apart
		assert.Equal(t, before, wrote.Load())
	})
}

// counting counts writes.
type counting struct {
	net.Conn
	wrote *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.wrote.Add(1)
	return c.Conn.Write(b)
}

// There is one spare, however long the silence lasts, and it is closed at the end of the silence.
func TestAMemberThatStaysMuteHasOneSpare(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		before := dials.Load()
		fake.Member(1).BlackHole()
		for range 20 {
			_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
		}
		assert.LessOrEqual(t, dials.Load()-before, int64(time.Minute/minSwap)+20)
		fake.Member(1).Heal()
		time.Sleep(10 * time.Second)
		_, err := c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, fake.Member(1).Endpoint())}, writing())
		require.NoError(t, err)
	})
}

// A process that was stopped counts one step for that time, whatever its network did meanwhile.
// rule: C4
func TestAStoppedProcessBlamesNobody(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		before := dials.Load()
		time.Sleep(time.Second) // no server listens
		for _, m := range c.list() {
			var n int
			m.wait = func(d time.Duration, end, stop <-chan struct{}) bool {
				if n++; n == steps-1 { // the process is stopped for longer than a line may be silent
					d = 10 * time.Second
				}
				return backoff.Wait(d, end, stop)
			}
		}
		for _, m := range fake.Members() {
			m.SetDelay(etcdfake.Fixed(5*time.Second), nil)
		}
		_, err := c.Txn(t.Context(), Request{Op: "txn", PerTry: time.Minute, Total: time.Minute}, writing())
		require.NoError(t, err)
		assert.Equal(t, before, dials.Load(), "no spare")
	})
}

// What a line sent while it was a spare must not hide that it is silent later.
// rule: C4
func TestASpareThatTurnsMuteAtOnceIsReplacedToo(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		old := c.list()[0].line.Load()
		fake.Member(0).Swallow()
		c.Go(func() { _, _ = c.Txn(c.life, Request{Op: "txn"}, writing()) })
		for c.list()[0].line.Load() == old {
			time.Sleep(time.Millisecond)
		}
		fake.Member(0).Swallow()
		start := time.Now()
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		require.NoError(t, err)
		assert.Less(t, time.Since(start), minSwap+time.Second)
	})
}

// A spare that answers late, in the instant in which another replaces it, is closed. It must not be
// used.
func TestASpareThatAnswersWhenItIsGivenUpIsNotUsed(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		k := c.list()[0]
		old := k.line.Load()
		x := old.examine()
		x.open()
		synctest.Wait()
		fake.Member(0).BlackHole()
		x.open()
		synctest.Wait()
		require.False(t, x.doubt())
		assert.Same(t, old, k.line.Load())
		fake.Member(0).Heal()
		x.end()
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
	})
}

// awaiting reports whether anything awaits an answer on the line in use.
func awaiting(m *Member) bool {
	_, _, open := m.line.Load().awaits.state()
	return open
}

// An interceptor's panic, from which its caller recovers, leaves nothing of the stream that it opened.
func TestAStreamWhoseInterceptorPanicsIsNotUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		cfg := ss.config()
		var given context.Context
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithStreamInterceptor(
			func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				given = ctx
				panic("of an interceptor")
			}))
		m := ss.connect(cfg).Pick()
		assert.Panics(t, func() { _, _ = etcdapi.Watch(t.Context(), m) })
		assert.False(t, awaiting(m))
		assert.Zero(t, m.inflight.Load())
		assert.Error(t, given.Err())
	})
}

// A message on a stream that has ended awaits no answer.
func TestAMessageOnAnEndedStreamHasNoAnswer(t *testing.T) {
	linked(t, 1, func(t *testing.T, _ *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		m := c.list()[0]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := etcdapi.Watch(ctx, m)
		require.NoError(t, err)
		require.NoError(t, s.Send(&pb.WatchRequest{}))
		assert.True(t, awaiting(m))
		cancel()
		synctest.Wait()
		_ = s.Send(&pb.WatchRequest{})
		assert.False(t, awaiting(m))
	})
}

// A spare needs several round trips before it has answered. Here they are two for the connection, as
// with TLS, and one for the call.
// rule: C4
func TestAMuteConnectionOfASlowNetworkIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{})
		t.Cleanup(fake.Close)
		m, trip := fake.Member(0), time.Second
		m.SetDelay(etcdfake.Fixed(trip/2), etcdfake.Fixed(trip/2))
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				time.Sleep(2 * trip)
				return fake.Dial(ctx, addr)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for range 10 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		old := c.list()[0].line.Load()
		m.Swallow()
		m.SetDelay(etcdfake.Fixed(trip/2), etcdfake.Fixed(trip/2))
		_, err = c.Txn(t.Context(), Request{Op: "txn", PerTry: 12 * time.Second, Repeat: Always}, writing())
		require.NoError(t, err)
		assert.NotSame(t, old, c.list()[0].line.Load())
	})
}

// rule: C4
func TestThePatienceFollowsTheRoundTrip(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		far := etcdfake.Fixed(400 * time.Millisecond)
		for _, c2 := range []struct {
			delay func() time.Duration
			want  time.Duration
		}{{far, 2400 * time.Millisecond}, {nil, patience}} {
			fake.Member(0).SetDelay(c2.delay, c2.delay)
			for range 300 { // more at once than fit into one round trip
				c.Go(func() { _, _ = c.Txn(c.life, Request{Op: "txn"}, writing()) })
				time.Sleep(30 * time.Millisecond)
			}
			assert.Equal(t, c2.want, c.list()[0].patience())
		}
	})
}

// rule: C9
func TestAFreshClientLosesNoTimeToAFrozenMember(t *testing.T) {
	for frozen := range 3 {
		for _, lazy := range []bool{false, true} {
			t.Run(fmt.Sprint("member ", frozen, ", lazy ", lazy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := etcdfake.New(etcdfake.Options{Members: 3})
					t.Cleanup(fake.Close)
					fake.Member(frozen).Halt()
					time.Sleep(2 * time.Second) // there is a leader again
					start := time.Now()
					c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), Lazy: lazy, DialOptions: []grpc.DialOption{fake.DialOption()}})
					require.NoError(t, err)
					t.Cleanup(func() { _ = c.Close() })
					for range 6 {
						_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
						require.NoError(t, err)
					}
					assert.Zero(t, time.Since(start))
				})
			})
		}
	}
}

// rule: C9
func TestAConnectionThatWasPassedOverIsMadeMeanwhile(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(1).Reset()
		synctest.Wait()
		m := member(t, c, fake.Member(1).Endpoint())
		require.NotEqual(t, connectivity.Ready, m.line.Load().conn.GetState())
		for range 3 {
			require.NotSame(t, m, c.Pick(), "others are ready")
		}
		synctest.Wait()
		assert.Equal(t, connectivity.Ready, m.line.Load().conn.GetState())
		assert.Contains(t, []*Member{c.Pick(), c.Pick(), c.Pick()}, m)
	})
}

// What was sent to the leader, or forwarded to it, is lost with it.
// rule: C9
func TestALeaderThatFreezesCostsAnElectionAndLittleMore(t *testing.T) {
	const election = 1200 * time.Millisecond
	for _, repeat := range []Repeat{IfNotApplied, Always} {
		t.Run(fmt.Sprint("repeat ", repeat), func(t *testing.T) {
			linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
				fake.Member(0).Halt()
				var wg sync.WaitGroup
				for range 3 { // one by each member
					wg.Go(func() {
						start := time.Now()
						_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: repeat}, writing())
						if repeat == Always {
							assert.NoError(t, err)
						} else if err != nil {
							assert.ErrorIs(t, err, ErrUnknown)
						}
						assert.LessOrEqual(t, time.Since(start), election+1500*time.Millisecond)
					})
				}
				wg.Wait()
				_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
				require.NoError(t, err)
			})
		})
	}
}

// A request that is slow, while the leader stays, waits for its answer.
// rule: C9
func TestASlowRequestUnderOneLeaderIsNotGivenUp(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Inject(etcdfake.Rule{Method: "Txn", Delay: 2500 * time.Millisecond})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
	})
}

// Unsolicited events show that a connection delivers to this side, and nothing about the other
// direction.
// rule: C4
func TestEventsDoNotHideThatNothingIsAnswered(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members, " members"), func(t *testing.T) {
			linked(t, members, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
				m := member(t, c, fake.Member(0).Endpoint())
				_, events := watching(t, m)
				fake.Member(0).SwallowRequests()
				writer, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints()[members-1:], DialOptions: []grpc.DialOption{fake.DialOption()}})
				require.NoError(t, err)
				t.Cleanup(func() { _ = writer.Close() })
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				defer wg.Wait()
				defer stop()
				wg.Go(func() { // ends with ctx
					for ctx.Err() == nil {
						_, _ = writer.Txn(ctx, Request{Op: "txn"}, writing())
						time.Sleep(17 * time.Millisecond)
					}
				})
				time.Sleep(time.Minute)
				require.Greater(t, events.Load(), int64(1000))
				require.False(t, awaiting(m), "the creation of the watch was answered")
				start := time.Now()
				_, err = c.Txn(t.Context(), Request{Op: "txn", On: m}, writing())
				require.ErrorIs(t, err, ErrUnknown)
				require.Less(t, time.Since(start), time.Second)
				time.Sleep(time.Second)
				_, err = c.Txn(t.Context(), Request{Op: "txn", On: m}, writing())
				require.NoError(t, err, "the connection was replaced")
			})
		})
	}
}

// Events on a stream are no answer to what was sent on it.
// rule: C4
func TestEventsDoNotHideThatAMessageOnTheirStreamIsNotAnswered(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		m := c.list()[0]
		old := m.line.Load()
		s, events := watching(t, m)
		fake.Member(0).SwallowRequests()
		writer, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = writer.Close() })
		require.NoError(t, s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte("other")},
		}}))
		for range 40 {
			_, err := writer.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
		}
		require.Greater(t, events.Load(), int64(20), "until the stream ended")
		assert.NotSame(t, old, m.line.Load(), "the connection was replaced")
	})
}

// A caller that stops waiting says nothing about the connection.
// rule: C4
func TestWhatItsCallerNoLongerAwaitsIsNotExamined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 2})
		t.Cleanup(fake.Close)
		var checks atomic.Int64
		c, err := Dial(t.Context(), Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{
			fake.DialOption(),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if method == healthpb.Health_Check_FullMethodName {
					checks.Add(1)
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}),
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		synctest.Wait()
		fake.Member(0).BlackHole()
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		_, err = c.Txn(ctx, Request{Op: "txn", On: member(t, c, fake.Member(0).Endpoint())}, writing())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(8 * time.Second) // less than the pings of gRPC are apart
		assert.Zero(t, checks.Load())
		_, due, _ := member(t, c, fake.Member(0).Endpoint()).line.Load().awaits.state()
		assert.False(t, due, "it is watched no more")
	})
}

// watching watches what writing writes, on m, and returns its stream, and how many events came.
func watching(t *testing.T, m *Member) (etcdapi.WatchStream, *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s, err := etcdapi.Watch(ctx, m)
	require.NoError(t, err)
	require.NoError(t, s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}},
	}}))
	created, err := s.Recv()
	require.NoError(t, err)
	require.True(t, created.Created)
	events := new(atomic.Int64)
	go func() { // ends with ctx
		for {
			r, err := s.Recv()
			if err != nil {
				return
			}
			events.Add(int64(len(r.Events)))
		}
	}()
	return s, events
}

// Events while a request is slow, and its member healthy, cost a health call and no connection.
// rule: C4
func TestEventsWhileARequestIsSlowReplaceNothing(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, dials *atomic.Int64) {
		_, events := watching(t, c.list()[0])
		before := dials.Load()
		fake.Inject(etcdfake.Rule{Method: "Txn", Times: 1, Delay: 2 * time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			assert.NoError(t, err)
		})
		time.Sleep(time.Millisecond)
		for range 100 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
			time.Sleep(17 * time.Millisecond)
		}
		wg.Wait()
		require.Greater(t, events.Load(), int64(99))
		assert.Equal(t, before, dials.Load())
	})
}

// The time in which the process was stopped is no round trip, so patience is not stretched by it.
// rule: C4
func TestAStopWhileARoundTripIsMeasuredIsNotPartOfIt(t *testing.T) {
	linked(t, 1, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		k := c.list()[0]
		k.wait = func(d time.Duration, end, stop <-chan struct{}) bool { // the process is stopped in each step
			time.Sleep(4 * time.Second)
			return backoff.Wait(d, end, stop)
		}
		stopped := etcdfake.Fixed(2 * time.Second) // the answer is read when the process continues
		fake.Member(0).SetDelay(stopped, stopped)
		k.measure(k.line.Load())
		time.Sleep(time.Minute)
		assert.Equal(t, patience, k.patience())
		assert.NotZero(t, k.trip.Load(), "it was measured")
	})
}

// A member that accepts connections and never sends anything holds up no stream while another one
// answers.
// rule: C9
func TestAStreamOnAConnectionThatNeverSpeaksIsGivenUp(t *testing.T) {
	linked(t, 3, func(t *testing.T, fake *etcdfake.Cluster, c *Cluster, _ *atomic.Int64) {
		fake.Member(1).BlackHole()
		fake.Member(1).Reset()
		synctest.Wait()
		m := member(t, c, fake.Member(1).Endpoint())
		start := time.Now()
		_, err := etcdapi.Watch(t.Context(), m)
		require.ErrorIs(t, err, errMute)
		assert.LessOrEqual(t, time.Since(start), 500*time.Millisecond)

		fake.Member(1).Heal()
		time.Sleep(10 * time.Second)
		assert.False(t, awaiting(m))
		s, err := etcdapi.Watch(t.Context(), m)
		require.NoError(t, err)
		require.NoError(t, s.Context().Err())
	})
}

// An attempt to connect tries every address itself.
// rule: C4
func TestACallThatWaitsForAConnectionBeginsNoSecondAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{})
		t.Cleanup(fake.Close)
		var hang atomic.Bool
		var attempts atomic.Int64
		c, err := Dial(t.Context(), Config{Endpoints: []string{"10.0.0.1:2379"}, dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			attempts.Add(1)
			if hang.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return fake.Dial(ctx, fake.Endpoints()[0])
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		before := attempts.Load()
		hang.Store(true)
		fake.Member(0).Reset()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = c.Txn(ctx, Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualValues(t, 1, attempts.Load()-before)
	})
}

// What is given up again at each step, because its caller's context stands still, is cancelled once.
// rule: T6
func TestWhatIsGivenUpAgainIsCancelledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s awaits
		var cancelled atomic.Int64
		a := &await{cancel: func() { cancelled.Add(1) }}
		s.all = map[*await]struct{}{a: {}}
		for _, why := range []*error{&errMute, &errMute, &errElected} {
			s.giveUp(why, everyAwait)
		}
		synctest.Wait()
		assert.Equal(t, int64(1), cancelled.Load())
		assert.Equal(t, errMute, *a.why.Load(), "the first reason stands")
	})
}
