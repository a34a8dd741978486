package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func inResolved(t *testing.T, f func(t *testing.T, r *Resolved)) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResolved()
		t.Cleanup(r.Close)
		f(t, r)
	})
}

// A fresh client waits for what will pass, and says at once what will not. One that connects when it is first used waits
// for either.
//
// rule: C10
func TestTheFirstUseWaitsForAResolverThatIsAtFault(t *testing.T) {
	const slow, no = "its name was not resolved: the resolver is silent, slow or failing", "the resolver knows no such name"
	const never = time.Hour
	for _, tt := range []struct {
		fault       string
		dial, first time.Duration // how long it takes; never if it fails
		back        time.Duration // as long, if the resolver is well after 6 s
		atOnce      bool          // whether Dial fails without waiting
		want        string
	}{
		{"well", 0, 0, 0, false, ""},
		{"2 s late", 2 * time.Second, 2 * time.Second, 2 * time.Second, false, ""},
		{"4 s late", 5 * time.Second, 5 * time.Second, 5 * time.Second, false, ""},
		{"SERVFAIL", never, never, 9 * time.Second, false, slow},
		{"silent", never, never, 13 * time.Second, false, slow},
		{"nowhere", never, never, 12 * time.Second, false, "nobody answers there"},
		{"NXDOMAIN", never, never, 9 * time.Second, true, no},
		{"empty", never, never, 9 * time.Second, true, no},
		{"elsewhere", never, never, 9 * time.Second, true, "nobody listens there"},
	} {
		for _, names := range []int{1, 3} {
			for _, lazy := range []bool{false, true} {
				for _, back := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, %d names, lazy %v, back %v", tt.fault, names, lazy, back), func(t *testing.T) {
						inResolved(t, func(t *testing.T, r *Resolved) {
							r.Resolve(tt.fault)
							within := tt.dial
							if back {
								within = tt.back
								time.AfterFunc(6*time.Second, func() { r.Resolve("well") })
							}
							ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
							defer cancel()
							began := time.Now()
							cfg := r.Config(names)
							cfg.Lazy = lazy
							c, err := Dial(ctx, cfg)
							if lazy {
								require.NoError(t, err)
								defer c.Close()
								err = c.reachUntil(ctx, time.Now().Add(time.Minute))
							}
							took := time.Since(began)
							switch {
							case tt.atOnce && !lazy:
								require.ErrorContains(t, err, tt.want)
								assert.Zero(t, took)
							case within == never:
								require.ErrorContains(t, err, tt.want)
								require.ErrorIs(t, err, context.DeadlineExceeded)
								assert.Equal(t, 20*time.Second, took)
							default:
								require.NoError(t, err)
								defer c.Close()
								assert.LessOrEqual(t, took, within)
							}
						})
					})
				}
			}
		}
	}
}

// The end of a context that is shorter than an attempt to connect has its reason too.
func TestDialSaysThatANameIsNotResolvedYet(t *testing.T) {
	inResolved(t, func(t *testing.T, r *Resolved) {
		r.Resolve("silent")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Dial(ctx, r.Config(1))
		require.ErrorContains(t, err, "m1.example:2379: no answer yet: lookup m1.example: the resolver has not answered")
	})
}

// A lookup lasts up to 30 s, however many attempts to connect pass meanwhile.
//
// rule: C10
func TestALookupOutlivesTheAttemptsThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, ended atomic.Int32
		c, err := Dial(t.Context(), Config{Endpoints: []string{"etcd.example:2379", "etcd.example:2380"}, Lazy: true, lookup: func(ctx context.Context, _ string) ([]string, error) {
			asked.Add(1)
			<-ctx.Done()
			ended.Add(1)
			return nil, ctx.Err()
		}})
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), lookupTotal-time.Second)
		defer cancel()
		require.Error(t, c.reachUntil(ctx, time.Now().Add(time.Hour)))
		assert.EqualValues(t, 1, asked.Load(), "both endpoints ask once")
		assert.Zero(t, ended.Load())
		time.Sleep(2 * time.Second)
		assert.EqualValues(t, 1, ended.Load())
	})
}

// A resolver may be the program's own.
//
// rule: C10
func TestAResolverThatNeverReturnsHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		c, err := Dial(t.Context(), Config{Endpoints: []string{"etcd.example:2379"}, Lazy: true, lookup: func(context.Context, string) ([]string, error) {
			<-over
			return nil, errors.New("late")
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, c.Reach(ctx), context.DeadlineExceeded)
		require.NoError(t, c.Close())
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// resolving is a client with one name, m1.example, which the resolver has resolved to 10.0.0.1.
func resolving(t *testing.T, r *Resolved) *Cluster {
	c, err := Dial(t.Context(), r.Config(1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustWrite(t *testing.T, c *Cluster) time.Duration {
	began := time.Now()
	_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
	require.NoError(t, err)
	return time.Since(began)
}

// The answer of a slow resolver joins the attempt that began without it.
//
// rule: C10
func TestAMemberThatMovedIsFoundThoughTheResolverIsSlow(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(r *Resolved)
		most  time.Duration
	}{
		"the old address refuses":      {func(r *Resolved) { r.Member(0).Stop() }, 5 * time.Second},
		"the old address is not there": {func(r *Resolved) { r.Gone("10.0.0.1"); r.Member(0).Reset() }, 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inResolved(t, func(t *testing.T, r *Resolved) {
				cl := resolving(t, r)
				r.Moved("m1.example", "10.0.0.2")
				r.Resolve("2 s late")
				c.leave(r)
				assert.LessOrEqual(t, mustWrite(t, cl), c.most)
			})
		})
	}
}

// An address is remembered for the answers that came from it, and not for connections that it takes.
//
// rule: C10
func TestOnlyAnAddressThatAnsweredIsRemembered(t *testing.T) {
	for name, peer := range map[string]func(there net.Conn){
		"it is silent":               func(there net.Conn) { _, _ = io.Copy(io.Discard, there) },
		"it ends connections":        func(there net.Conn) { _ = there.Close() },
		"it speaks another protocol": func(there net.Conn) { go io.Copy(io.Discard, there); _, _ = io.WriteString(there, "SSH-2.0-1\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			inResolved(t, func(t *testing.T, r *Resolved) {
				c := resolving(t, r)
				r.Stranger("10.9.9.9", peer)
				r.Resolve("elsewhere")
				for range 3 {
					r.Member(0).Reset()
					assert.LessOrEqual(t, mustWrite(t, c), 5*time.Second)
				}
			})
		})
	}
}

// What an answer lists comes before what it does not list any more.
//
// rule: C10
func TestTheAddressOfBeforeIsTriedLast(t *testing.T) {
	inResolved(t, func(t *testing.T, r *Resolved) {
		a := resolving(t, r).list()[0].addresses
		assert.Equal(t, []string{"10.0.0.2:2379", "10.0.0.3:2379", "10.0.0.1:2379"}, a.order([]string{"10.0.0.2", "10.0.0.3"}))
		assert.Equal(t, []string{"10.0.0.2:2379", "10.0.0.1:2379"}, a.order([]string{"10.0.0.2", "10.0.0.1"}))
		assert.True(t, a.several())
		a.failedAt("10.0.0.2:2379")
		assert.Equal(t, []string{"10.0.0.1:2379", "10.0.0.2:2379"}, a.order([]string{"10.0.0.2"}), "and one that failed after that")
	})
}

// A member that has moved may leave its address to another cluster. As long as the resolver does not list that address,
// this says nothing of the member, and ends nothing.
//
// rule: C10
func TestAnotherClusterAtAnAddressOfBeforeEndsNothing(t *testing.T) {
	for _, fault := range []string{"SERVFAIL", "NXDOMAIN", "silent", "nowhere"} {
		t.Run(fault, func(t *testing.T) {
			inResolved(t, func(t *testing.T, r *Resolved) {
				c := resolving(t, r)
				r.Moved("m1.example", "10.0.0.2")
				r.Member(0).SetClusterID(99)
				r.Resolve(fault)
				r.Member(0).Reset()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := c.Txn(ctx, Request{Op: "txn", Repeat: Always}, writing())
				require.Error(t, err)
				require.NoError(t, c.Err())
				assert.NotContains(t, r.Log(), "set aside")
				r.Resolve("well")
				time.Sleep(10 * time.Second)
				assert.Less(t, mustWrite(t, c), 5*time.Second)
				require.NoError(t, c.Err())
			})
		})
	}
}

// Nothing connects to it again before the resolver has been asked.
//
// rule: C10
func TestAnotherClusterAtAnAddressOfBeforeIsNotDialedAgain(t *testing.T) {
	inResolved(t, func(t *testing.T, r *Resolved) {
		m := resolving(t, r).list()[0]
		a, l := m.addresses, m.line.Load()
		a.unlisted = "10.0.0.1:2379"
		disowned := func(ip string) bool {
			here, there := net.Pipe()
			defer there.Close()
			l.wire.Store(&wire{Conn: placed{here, &net.TCPAddr{IP: net.ParseIP(ip), Port: 2379}}, l: l})
			return l.disown()
		}
		assert.False(t, disowned("10.0.0.2"), "the last connection is another one")
		assert.Equal(t, "10.0.0.1:2379", a.served)
		assert.Equal(t, []string{"10.0.0.1"}, a.name.hosts)
		assert.True(t, disowned("10.0.0.1"))
		assert.Empty(t, a.served)
		assert.Empty(t, a.name.hosts)
		assert.Equal(t, []string{"10.0.0.2:2379"}, a.order([]string{"10.0.0.2"}))
	})
}

// A member of another cluster at an address that the resolver lists is found out, whatever was dialed before.
//
// rule: C10
func TestWhoIsAtAnAddressOfBeforeShowsItsIdentity(t *testing.T) {
	inResolved(t, func(t *testing.T, r *Resolved) {
		c := resolving(t, r)
		r.Resolve("SERVFAIL")
		for _, m := range r.Members() {
			m.SetClusterID(99)
		}
		r.Member(0).Reset()
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		require.Error(t, err)
		r.Resolve("well")
		_, err = c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		require.Error(t, err)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, c.Err(), ErrChanged)
	})
}

// A program's own dialer is given the name, and pawl resolves nothing for it. What it returns need not have an address.
func TestAProgramsOwnDialerIsGivenTheName(t *testing.T) {
	inResolved(t, func(t *testing.T, r *Resolved) {
		cfg := r.Config(1)
		cfg.lookup = func(context.Context, string) ([]string, error) { panic("nothing is looked up") }
		cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			assert.Equal(t, "m1.example:2379", name)
			conn, err := r.Dial(ctx, "10.0.0.1:2379")
			return placed{conn, nil}, err
		})}
		c, err := Dial(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for range 3 {
			r.Member(0).Reset()
			mustWrite(t, c)
		}
	})
}
