package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestAnErrorMatchesUnknownExactlyWhenItIs(t *testing.T) {
	for outcome, want := range map[Outcome]bool{NotApplied: false, Unknown: true} {
		e := &Error{Op: "txn", Endpoint: "a:1", Outcome: outcome, Err: rpctypes.ErrGRPCTimeout}
		assert.Equal(t, want, errors.Is(e, ErrUnknown))
		assert.Equal(t, outcome, OutcomeOf(fmt.Errorf("x: %w", e)))
		assert.ErrorIs(t, e, rpctypes.ErrGRPCTimeout)
	}
	assert.Equal(t, Unknown, OutcomeOf(errors.New("never heard of")))
}

func TestTextsOfErrors(t *testing.T) {
	ended := context.DeadlineExceeded
	for want, e := range map[string]*Error{
		"txn at a:1: etcdserver: no leader": {Op: "txn", Endpoint: "a:1", Err: rpctypes.ErrGRPCNoLeader, Code: codes.Unavailable},
		"txn: closed by this process":       {Op: "txn", Err: ErrClosed},
		"txn at a:1: outcome unknown: it may have been applied: etcdserver: request timed out": {Op: "txn", Endpoint: "a:1", Outcome: Unknown, Err: rpctypes.ErrGRPCTimeout},
		"txn: context deadline exceeded":                                                   {Op: "txn", ended: ended},
		"txn: context deadline exceeded: etcdserver: no leader":                            {Op: "txn", ended: ended, Err: rpctypes.ErrGRPCNoLeader, Code: codes.Unavailable},
		"txn at a:1: no answer in time: etcdserver: context deadline exceeded":             {Op: "txn", Endpoint: "a:1", Err: rpctypes.ErrGRPCDeadlineExceeded, Code: codes.DeadlineExceeded},
		"txn at a:1: outcome unknown: it may have been applied: context deadline exceeded": {Op: "txn", Endpoint: "a:1", Outcome: Unknown, ended: ended, Err: rpctypes.ErrGRPCDeadlineExceeded, Code: codes.DeadlineExceeded},
	} {
		assert.EqualError(t, e, want)
	}
}

func TestTheEndOfAContextMatchesItsErrorAndItsCause(t *testing.T) {
	assert.NoError(t, EndOf(t.Context()))
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	assert.ErrorIs(t, EndOf(ctx), context.Canceled)
	assert.ErrorIs(t, EndOf(ctx), cause)
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("wrapped: %w", context.Canceled))
	assert.EqualError(t, EndOf(ctx), "wrapped: context canceled")
}

// A server that received the deadline may answer in the instant in which it passes, before the
// context's timer has run.
func TestADeadlineThatHasPassedIsAnEnd(t *testing.T) {
	ctx := late{context.Background(), time.Now()}
	assert.ErrorIs(t, EndOf(ctx), context.DeadlineExceeded)
	ctx.end = time.Now().Add(time.Hour)
	assert.NoError(t, EndOf(ctx))
}

// A member whose request ends with the caller's context is not at fault.
func TestAMemberThatEndsARequestAtItsDeadlineIsNotBlamed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		s := &sender{c: c, member: member(t, c, "m0:2379"), began: time.Now()}
		ctx := late{context.Background(), time.Now()}
		assert.False(t, s.mayRetry(ctx, Unknown, status.Error(codes.DeadlineExceeded, "context deadline exceeded")))
		assert.Equal(t, Unknown, s.outcome)
		assert.NotContains(t, ss.logged(), "member failing")
	})
}

// late is a context whose timer has not run.
type late struct {
	context.Context
	end time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.end, true }
