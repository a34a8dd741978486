package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestDialRefusesABadConfigBeforeAnythingIsDone(t *testing.T) {
	for why, cfg := range map[string]Config{
		"no endpoint given":                       {},
		`endpoint "x": address x: missing port`:   {Endpoints: []string{"x"}},
		"a password is given without a user name": {Endpoints: []string{"a:1"}, Password: "secret"},
		"SyncEvery -1s is negative":               {Endpoints: []string{"a:1"}, SyncEvery: -time.Second},
		"no transport security set":               {Endpoints: []string{"a:1"}, DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(nil)}},
	} {
		_, err := Dial(t.Context(), cfg)
		if assert.Error(t, err, why) {
			assert.Contains(t, strings.ReplaceAll(err.Error(), "missing port in address", "address x: missing port"), why)
			assert.NotContains(t, err.Error(), "secret")
		}
	}
	var none context.Context
	_, err := Dial(none, Config{})
	assert.EqualError(t, err, "nil context")
}

func TestDialWithAnEndedContextDoesNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("why")
	cancel(cause)
	_, err := Dial(ctx, Config{Endpoints: []string{"a:1"}})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cause)
}

// A call returns at most 100 ms after its context's end. TestABlackHoleHoldsUpNoDial shows it in real
// time.
func TestDialIntoBlackHolesEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.hole["m0:2379"], ss.hole["m1:2379"] = true, true
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, ss.config())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), 300*time.Millisecond)
	})
}

// Hazard C4.
func TestDialIsDoneWithTheFirstGoodAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 3)
		ss.hole["m0:2379"], ss.dead["m1:2379"] = true, true
		began := time.Now()
		c := ss.connect(ss.config())
		assert.Zero(t, time.Since(began))
		assert.EqualValues(t, 7, c.ID())
		for range 6 { // and no request waits long for the other members
			began := time.Now()
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 3*time.Second)
		}
	})
}

func TestTheOtherAnswersAreTakenInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.get(0).version.Store("3.4.30")
		ss.get(0).do(func(s *stub) { s.onStatus = func(context.Context, int64) error { time.Sleep(time.Second); return nil } })
		c := ss.connect(ss.config())
		assert.False(t, member(t, c, "m0:2379").checked.Load())
		time.Sleep(2 * time.Second)
		assert.True(t, member(t, c, "m0:2379").checked.Load())
		assert.Contains(t, ss.logged(), "etcd 3.4.30")
	})
}

func TestAMemberThatWasDownIsProbedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.get(0).version.Store("3.6.0")
		ss.dead["m0:2379"] = true
		c := ss.connect(ss.config())
		time.Sleep(30 * time.Second)
		require.False(t, member(t, c, "m0:2379").checked.Load())
		ss.mu.Lock()
		delete(ss.dead, "m0:2379")
		ss.mu.Unlock()
		time.Sleep(30 * time.Second)
		require.True(t, member(t, c, "m0:2379").checked.Load())
		require.Equal(t, 1, strings.Count(ss.logged(), "etcd 3.6.0"))

		m := member(t, c, "m0:2379") // the member goes and comes back with another version
		ss.get(0).version.Store("3.6.1")
		c.Failed(m, errors.New("gone"))
		c.Worked(m)
		time.Sleep(30 * time.Second)
		c.Failed(m, errors.New("gone"))
		c.Worked(m)
		time.Sleep(30 * time.Second)
		assert.Equal(t, 1, strings.Count(ss.logged(), "etcd 3.6.1"), "once for each version")
	})
}

func TestDialEndsWithItsContextWhenNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.hole["m0:2379"], ss.hole["m1:2379"] = true, true
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, ss.config())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.ErrorContains(t, err, "m0:2379")
		assert.ErrorContains(t, err, "m1:2379")
	})
}

// A member that is silent may be overloaded, or its machine may stand still. One that refuses is not
// waited for, then and later.
func TestDialWaitsForASilentMemberAsLongAsItsContext(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(n *Named) (later func()) // which is called after 20 s
		want string                        // in the error
	}{
		"it takes no connection": {func(n *Named) func() { NameFaults["is not there"](n, 1); return n.Fill }, ""},
		"it is an address":       {func(n *Named) func() { NameFaults["is not there"](n, 1); return n.Fill }, ""},
		"it takes a connection":  {func(n *Named) func() { n.Member(1).Halt(); return n.Heal }, ""},
		"it takes requests":      {func(n *Named) func() { return n.Inject(etcdfake.Rule{Method: "Status", Hang: true}).Lift }, ""},
		"it takes logins":        {func(n *Named) func() { return n.Inject(etcdfake.Rule{Method: "Authenticate", Hang: true}).Lift }, ""},
		"it stays silent":        {func(n *Named) func() { n.Member(1).Halt(); return func() {} }, "it takes connections and says nothing"},
		"it stays silent to TLS": {func(n *Named) func() { n.Member(1).Halt(); return func() {} }, "it takes connections and says nothing"},
		"it has no TLS":          {func(n *Named) func() { n.Member(1).Halt(); return n.Heal }, "the server does not speak TLS"},
		"it goes": {func(n *Named) func() {
			n.Member(1).Halt()
			return func() { n.Heal(); n.Member(1).Stop() }
		}, "nobody listens there|connection reset by peer"}, // chance decides which attempt ends it
		"it does not run": {func(n *Named) func() { n.Member(1).Stop(); return nil }, "nobody listens there"},
	} {
		inName(t, func(t *testing.T, n *Named) {
			n.EnableAuth(password)
			cfg := n.Config()
			cfg.Username, cfg.Password = "root", password
			cfg.lookup = func(context.Context, string) ([]string, error) { return []string{"10.0.0.2"}, nil }
			switch {
			case strings.Contains(name, "TLS"):
				cfg.Endpoints = []string{"https://etcd.example:2379"}
			case strings.Contains(name, "address"):
				cfg.Endpoints = []string{"10.0.0.2:2379"}
			}
			later := tt.fail(n)
			if later != nil {
				time.AfterFunc(20*time.Second, later)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			began := time.Now()
			c, err := Dial(ctx, cfg)
			took := time.Since(began)
			if tt.want == "" {
				if assert.NoError(t, err, name) {
					defer c.Close()
					assert.Zero(t, c.list()[0].swapped, name)
				}
			} else {
				assert.Regexp(t, tt.want, fmt.Sprint(err), name)
			}
			switch {
			case later == nil:
				assert.Zero(t, took, name)
			case strings.HasPrefix(name, "it stays silent"):
				assert.Equal(t, 30*time.Second, took, name)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			default:
				assert.GreaterOrEqual(t, took, 20*time.Second, name)
				assert.Less(t, took, 28*time.Second, name)
			}
		})
	}
}

// Whatever was said before, the other side's silence is waited for, and its last word is not.
func TestTheEndOfTheLastConnectionDecidesWhetherDialWaits(t *testing.T) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	silent := func(there net.Conn) { _, _ = io.Copy(io.Discard, there) }
	says := func(text string) func(net.Conn) {
		return func(there net.Conn) {
			go silent(there)
			_, _ = io.WriteString(there, text)
		}
	}
	for name, tt := range map[string]struct {
		endpoint string
		peer     func(there net.Conn)
		waits    bool
		want     string
	}{
		"silence":                     {"10.0.0.2:2379", silent, true, "says nothing"},
		"silence after a first frame": {"10.0.0.2:2379", says(settings), true, "keepalive ping failed"},
		"silence in the handshake":    {"https://10.0.0.2:2379", says("\x16"), true, "says nothing"},
		"the end": {"10.0.0.2:2379", func(there net.Conn) {
			gone := make(chan struct{})
			go func() { silent(there); close(gone) }()
			select {
			case <-gone:
			case <-time.After(time.Second):
			}
			_ = there.Close()
		}, false, "wants TLS"},
		"another protocol":          {"10.0.0.2:2379", says("HTTP/1.1 400 Bad Request\r\n\r\n"), false, ""},
		"another protocol, not TLS": {"https://10.0.0.2:2379", says("HTTP/1.1 400 Bad Request\r\n\r\n"), false, "the server does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
					if time.Since(began) < 20*time.Second {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					here, there := net.Pipe()
					go tt.peer(there) // ends with here
					return here, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), 42*time.Second)
				defer cancel()
				_, err := Dial(ctx, Config{Endpoints: []string{tt.endpoint}, dial: dial})
				require.ErrorContains(t, err, tt.want)
				if tt.waits {
					assert.Equal(t, 42*time.Second, time.Since(began))
				} else {
					assert.Less(t, time.Since(began), 28*time.Second)
				}
			})
		})
	}
}

func TestAMemberThatDoesNotAnswerAConnectionIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Dial(t.Context(), Config{Endpoints: []string{"10.0.0.2:2379"}, dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		require.ErrorContains(t, err, "10.0.0.2:2379: nobody answers there")
	})
}

// Every member would refuse them too.
func TestDialWithAWrongPasswordDoesNotWaitForTheOtherMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.get(0).do(func(s *stub) { s.onStatus = func(context.Context, int64) error { return rpctypes.ErrGRPCUserEmpty } })
		ss.get(1).do(func(s *stub) {
			s.onStatus = func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }
		})
		ss.each(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) {
				return "", rpctypes.ErrGRPCAuthFailed
			}
		})
		began := time.Now()
		_, err := Dial(t.Context(), ss.asRoot())
		require.ErrorContains(t, err, "authentication failed")
		assert.Less(t, time.Since(began), time.Second)
	})
}

// A connection whose machine is gone ends with a timeout, and what is still written on it fails then.
func TestTheFirstFailureOfAConnectionDecidesWhetherItWasSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		read, write error
		writesFirst bool
		mute        bool
	}{
		"the read times out":                         {syscall.ETIMEDOUT, syscall.EPIPE, false, true},
		"there is no route any more":                 {syscall.EHOSTUNREACH, syscall.EPIPE, false, true},
		"the other side resets":                      {syscall.ECONNRESET, syscall.EPIPE, false, false},
		"the other side resets, which a write sees":  {net.ErrClosed, syscall.ECONNRESET, true, false},
		"this side closes while it waits for a read": {net.ErrClosed, net.ErrClosed, false, true},
	} {
		l := &line{m: new(Member)}
		w := &wire{Conn: failing{tt.read, tt.write}, l: l}
		if tt.writesFirst {
			_, _ = w.Write(nil)
		}
		_, _ = w.Read(nil)
		_, _ = w.Write(nil)
		for range 2 { // as gRPC does
			_ = w.Close()
			assert.Equal(t, tt.mute, l.mute.Load(), name)
		}
	}
}

// failing is a connection whose reads and writes fail.
type failing struct{ read, write error }

func (f failing) Read([]byte) (int, error)       { return 0, f.read }
func (f failing) Write([]byte) (int, error)      { return 0, f.write }
func (failing) Close() error                     { return nil }
func (failing) LocalAddr() net.Addr              { return nil }
func (failing) RemoteAddr() net.Addr             { return nil }
func (failing) SetDeadline(time.Time) error      { return nil }
func (failing) SetReadDeadline(time.Time) error  { return nil }
func (failing) SetWriteDeadline(time.Time) error { return nil }

func TestASocketThatIsGoneIsNotSilent(t *testing.T) {
	l := &line{m: &Member{endpoint: endpoint{name: "unix://" + t.TempDir() + "/none"}}}
	l.mute.Store(true) // whoever listened there was
	_, err := l.connect(t.Context(), "")
	require.ErrorIs(t, err, syscall.ENOENT)
	assert.False(t, l.mute.Load())
}

// A member that was silent, and is not any more, is not called silent.
func TestAConnectionThatSpeaksIsNotMute(t *testing.T) {
	inName(t, func(t *testing.T, n *Named) {
		n.Member(1).Halt()
		time.AfterFunc(5*time.Second, n.Heal)
		c, err := Dial(t.Context(), Config{Endpoints: []string{"10.0.0.2:2379"}, dial: n.connect})
		require.NoError(t, err)
		defer c.Close()
		assert.False(t, c.list()[0].line.Load().mute.Load())
	})
}

// Dial does not try again what every login is answered with.
func TestALoginThatIsAnsweredEndsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		ss.get(0).do(func(s *stub) {
			s.onAuth = func(context.Context, int64, *pb.AuthenticateRequest) (string, error) {
				return "", status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, ss.asRoot())
		require.ErrorContains(t, err, "no password user")
		assert.LessOrEqual(t, time.Since(began), fetchTotal)
	})
}

// A member that answers no login is named.
func TestDialSaysWhyThereIsNoToken(t *testing.T) {
	for _, limit := range []time.Duration{5 * time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ss := newStubs(t, 1)
			ss.get(0).do(func(s *stub) {
				s.onAuth = func(ctx context.Context, _ int64, _ *pb.AuthenticateRequest) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			_, err := Dial(ctx, ss.asRoot())
			require.ErrorContains(t, err, `no auth token came: authenticate user "root" at m0:2379: no answer in time`)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, limit, time.Since(began))
		})
	}
}

// Older servers tell their status without a token.
func TestDialWaitsForItsTokenAsLongAsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.dead["m1:2379"] = true // its word is not that of the member which is silent
		began := time.Now()
		ss.get(0).do(func(s *stub) {
			s.onAuth = func(ctx context.Context, _ int64, _ *pb.AuthenticateRequest) (string, error) {
				if time.Since(began) < 20*time.Second {
					<-ctx.Done()
				}
				return "token", ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := Dial(ctx, ss.asRoot())
		require.NoError(t, err)
		defer c.Close()
		assert.GreaterOrEqual(t, time.Since(began), 20*time.Second)
	})
}

func TestDialHasABoundOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.hole["m0:2379"] = true
		ss.get(1).do(func(s *stub) { s.onStatus = func(context.Context, int64) error { return rpctypes.ErrGRPCNoLeader } })
		began := time.Now()
		_, err := Dial(context.Background(), ss.config())
		require.Error(t, err)
		assert.Equal(t, dialTotal, time.Since(began))
		assert.ErrorContains(t, err, "m0:2379")
		assert.ErrorContains(t, err, "no endpoint gave a good answer in time")
	})
}

func TestDialWaitsForAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		ss.get(0).do(func(s *stub) {
			s.onStatus = func(_ context.Context, n int64) error {
				if n < 4 {
					return rpctypes.ErrGRPCNoLeader
				}
				return nil
			}
		})
		ss.connect(ss.config())
		assert.EqualValues(t, 4, ss.get(0).statuses.Load())
	})
}

func TestDialSaysForEachEndpointThatNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.dead["m0:2379"], ss.dead["m1:2379"] = true, true
		_, err := Dial(t.Context(), ss.config())
		assert.ErrorContains(t, err, "m0:2379: nobody listens there: ")
		assert.ErrorContains(t, err, "m1:2379: nobody listens there: ")
	})
}

func TestDialFindsAServerWithoutEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		ss.get(0).do(func(s *stub) {
			s.onStatus = func(ctx context.Context, _ int64) error {
				_, err := s.UnimplementedMaintenanceServer.Status(ctx, nil)
				return err
			}
		})
		_, err := Dial(t.Context(), ss.config())
		assert.ErrorContains(t, err, "m0:2379: not an etcd server: ")
	})
}

func TestDialsContextBoundsDialAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		c, err := Dial(ctx, ss.config())
		require.NoError(t, err)
		defer c.Close()
		cancel()
		synctest.Wait()
		_, err = c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		assert.NoError(t, c.Err())
	})
}

func TestAMissingLoggerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		cfg := ss.config()
		cfg.Logger = nil
		c := ss.connect(cfg)
		c.Logger().Info("to nobody")
		assert.Equal(t, "m0:2379", c.Members()[0].Endpoint())
	})
}

// Hazard C3: the server enforces pings as etcd does, so it would end a connection that pinged too
// often.
func TestNoConnectionIsLostOverAnIdleDayOrALongRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		c := ss.connect(ss.config())
		synctest.Wait()
		time.Sleep(racedetector.Of(time.Hour, 24*time.Hour))
		ss.each(func(s *stub) {
			s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
				time.Sleep(10 * time.Minute)
				return &pb.TxnResponse{Header: s.header()}, nil
			}
		})
		for range 2 {
			_, err := c.Txn(t.Context(), Request{Op: "txn", PerTry: time.Hour, Total: time.Hour}, writing())
			require.NoError(t, err)
		}
		assert.Equal(t, 2, ss.made)
	})
}
