package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

type valueKey struct{}

func TestAScopeEndsWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		because := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), valueKey{}, 7))
		s := NewScope(ctx)
		defer s.End()
		derived, stop := context.WithCancel(s)
		defer stop()
		done := s.Done()
		require.NoError(t, s.Err())
		assert.Equal(t, 7, s.Value(valueKey{}))
		cancel(because)
		assert.Equal(t, context.Canceled, s.Err(), "at once, whatever has run")
		assert.Equal(t, because, context.Cause(s))
		<-done
		<-derived.Done()
		<-s.Done()
		s.End()
		assert.Equal(t, because, context.Cause(s))
	})
}

func TestAScopeEndsAtEnd(t *testing.T) {
	for _, made := range []func(context.Context) *Scope{NewScope, NewGrace} {
		for _, ctx := range []context.Context{t.Context(), context.Background()} {
			s := made(ctx)
			asked := s.Done()
			require.NoError(t, s.Err())
			s.End()
			<-asked
			<-s.Done()
			assert.Equal(t, context.Canceled, s.Err())
			require.NoError(t, ctx.Err())
		}
	}
}

func TestAScopeHasTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := NewScope(ctx)
		defer s.End()
		end, ok := s.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Now().Add(time.Second), end)
		<-s.Done()
		assert.Equal(t, context.DeadlineExceeded, s.Err())
		assert.Equal(t, time.Now(), end)
	})
}

func TestGraceEndsShortlyAfterTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		because := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := NewGrace(ctx)
		defer s.End()
		time.Sleep(time.Second)
		cancel(because)
		time.Sleep(Grace - 1)
		synctest.Wait()
		require.NoError(t, s.Err())
		_, ok := s.Deadline()
		assert.False(t, ok)
		time.Sleep(time.Nanosecond)
		<-s.Done()
		assert.Equal(t, because, context.Cause(s))

		late := NewGrace(ctx) // of a context that has ended
		defer late.End()
		require.NoError(t, late.Err())
		time.Sleep(Grace)
		<-late.Done()
	})
}

// hooks is a context that counts what waits for its end.
type hooks struct {
	context.Context
	done chan struct{}
	n    int
}

func (h *hooks) Done() <-chan struct{} { return h.done }

func (h *hooks) AfterFunc(func()) func() bool {
	h.n++
	return func() bool { h.n--; return true }
}

func TestAScopeLeavesNothingOnTheCallersContext(t *testing.T) {
	ctx := &hooks{Context: t.Context(), done: make(chan struct{})}
	for _, made := range []func(context.Context) *Scope{NewScope, NewGrace} {
		s := made(ctx)
		assert.Equal(t, 1, ctx.n)
		s.End()
		s.End()
		assert.Zero(t, ctx.n)
	}
}

func TestABoundEndsWithItsScopeWheneverThatEnds(t *testing.T) {
	var c Cluster
	s := NewScope(t.Context())
	before := []*bound{c.bind(s, time.Hour), c.bind(s, time.Hour), c.bind(s, time.Hour)}
	c.unbind(before[1])
	require.NoError(t, before[0].ctx.Err())
	require.NoError(t, before[2].ctx.Err())
	s.End()
	after := c.bind(s, time.Hour)
	for _, b := range []*bound{before[0], before[2], after} {
		require.Error(t, b.ctx.Err())
		c.unbind(b)
	}
}

// gRPC derives a context from an attempt's: a goroutine for each would be dear.
func TestABoundEndsWhatHangsOnItsAttemptByItself(t *testing.T) {
	var c Cluster
	c.creds.init("", "")
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		b := c.bind(ctx, time.Hour)
		derived, cancel := context.WithCancel(&attempt{Context: ctx, bound: b, md: c.creds.bare.ctx})
		b.cancel()
		require.Error(t, derived.Err(), "before b.cancel has returned")
		cancel()
		c.unbind(b)
	}
}

// send is a request with s that is never answered; its error comes on the channel.
func send(c *Cluster, ctx context.Context) <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
		answer <- err
	}()
	synctest.Wait()
	return answer
}

func TestTheEndOfAScopeEndsWhatIsSentWithIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = silent })
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		s := NewScope(ctx)
		first, second := send(c, s), send(c, s)
		s.End()
		for _, err := range []error{<-first, <-second} {
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, ErrUnknown)
			assert.True(t, IsCode(err, codes.Canceled))
		}
		s = NewScope(ctx)
		defer s.End()
		first = send(c, s)
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		assert.Zero(t, time.Since(began))

		s = NewGrace(ctx)
		defer s.End()
		require.ErrorIs(t, <-send(c, s), context.Canceled)
		assert.Equal(t, Grace, time.Since(began))

		sent := ss.txns()
		_, err := c.Txn(s, Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, sent, ss.txns(), "nothing is sent with one that is over")
	})
}

func TestTheServerIsToldTheSoonerEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) {
			s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				end, ok := ctx.Deadline()
				assert.True(t, ok)
				within(t, 0, time.Second, time.Until(end))
				return &pb.TxnResponse{Header: s.header(), Succeeded: true}, nil
			}
		})
		timed, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := NewScope(timed)
		defer s.End()
		for _, tc := range []struct {
			ctx   context.Context
			bound time.Duration
		}{{timed, time.Minute}, {s, time.Minute}, {t.Context(), time.Second}} {
			_, err := c.Txn(tc.ctx, Request{Op: "txn", Attempt: tc.bound}, writing())
			require.NoError(t, err)
		}
	})
}

func TestTheCodeTellsWhatEndedAnAttempt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = silent })
		same := func(ctx context.Context) context.Context { return ctx }
		scoped := func(ctx context.Context) context.Context { return NewScope(ctx) }
		for _, made := range []func(context.Context) context.Context{same, scoped} {
			timed, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			cancelled, end := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, end)
			ends := func(ctx context.Context, after time.Duration, want codes.Code) {
				t.Helper()
				began := time.Now()
				_, err := c.Txn(made(ctx), Request{Op: "txn"}, writing())
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, want, e.Code)
				assert.Equal(t, after, time.Since(began))
			}
			ends(cancelled, time.Second, codes.Canceled)
			ends(timed, 0, codes.DeadlineExceeded)
			timed, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ends(timed, time.Second, codes.DeadlineExceeded)
			ends(t.Context(), defaultAttempt, codes.DeadlineExceeded)
			ends(context.Background(), defaultAttempt, codes.DeadlineExceeded)
		}
	})
}

// An interceptor may say in its own words that its context is over.
func TestABoundThatPassedIsNotACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 1)
		cfg := ss.config()
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if _, ok := req.(*pb.TxnRequest); !ok {
				return invoke(ctx, method, req, answer, conn, opts...)
			}
			<-ctx.Done()
			return fmt.Errorf("held up: %w", ctx.Err())
		}))
		c := ss.connect(cfg)
		_, err := c.Txn(t.Context(), Request{Op: "txn", Attempt: time.Second}, writing())
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.True(t, IsCode(err, codes.DeadlineExceeded))
		assert.Equal(t, NotApplied, OutcomeOf(err))

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		_, err = c.Txn(ctx, Request{Op: "txn", Attempt: time.Second}, writing())
		require.ErrorIs(t, err, context.Canceled)
	})
}

// What ended one attempt does not end another, though most bounds serve again.
func TestABoundThatEndedAnAttemptServesNoOther(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		works := func(ctx context.Context) {
			t.Helper()
			ss.get(0).do(func(s *stub) { s.onTxn = nil })
			_, err := c.Txn(ctx, Request{Op: "txn", Attempt: time.Second}, writing())
			require.NoError(t, err)
		}
		for range 20 {
			for _, end := range []func(*testing.T){
				func(t *testing.T) { // by its time

					_, err := c.Txn(t.Context(), Request{Op: "txn", Attempt: time.Second}, writing())
					require.Error(t, err)
				},
				func(t *testing.T) { // by the caller

					ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
					defer cancel()
					_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
					require.Error(t, err)
				},
				func(t *testing.T) { // by the scope

					s := NewScope(t.Context())
					answer := send(c, s)
					s.End()
					require.Error(t, <-answer)
				},
			} {
				works(t.Context())
				ss.get(0).do(func(s *stub) { s.onTxn = silent })
				end(t)
				s := NewScope(t.Context())
				works(s)
				works(t.Context())
				time.Sleep(2 * time.Second) // nothing of an earlier one comes late
				works(s)
				s.End()
				synctest.Wait()
				works(t.Context())
			}
		}
	})
}

// What a context that has ended already is bound to ends at once: it may have ended after it was
// last looked at.
func TestABoundOfAContextThatHasEndedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		over := NewScope(t.Context())
		over.End()
		for _, ctx := range []context.Context{ctx, over} {
			b := c.bind(ctx, time.Hour)
			began := time.Now()
			<-b.ctx.Done()
			assert.Zero(t, time.Since(began))
			c.unbind(b)
			assert.Nil(t, c.bounds.Get())
		}
	})
}
