package grpcfence_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/fencing/grpcfence"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

const job = "jobs/42"

func under(t *testing.T, token fencing.Token) context.Context {
	return fencing.NewContext(t.Context(), job, token)
}

func info(t *testing.T, err error) (*status.Status, *errdetails.ErrorInfo) {
	t.Helper()
	s, ok := status.FromError(err)
	require.True(t, ok, "%v", err)
	require.Len(t, s.Details(), 1)
	return s, s.Details()[0].(*errdetails.ErrorInfo)
}

func TestStaleTokenIsAFailedPreconditionWithBothTokens(t *testing.T) {
	s := newService()
	fenced, bare := start(t, s, &s.gate)
	_, err := call(under(t, 57), fenced, "Write", "b")
	require.NoError(t, err)

	_, err = call(under(t, 41), fenced, "Write", "late")
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fencing.StaleError{Resource: job, Got: 41, Highest: 57}, *stale)
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))

	_, err = call(metadata.AppendToOutgoingContext(t.Context(), grpcfence.Key, "41 jobs%2F42"), bare, "Write", "late")
	st, details := info(t, err)
	assert.Equal(t, codes.FailedPrecondition, st.Code())
	assert.Equal(t, "STALE_FENCING_TOKEN", details.GetReason())
	assert.Equal(t, "fencing.pawl", details.GetDomain())
	assert.Equal(t, map[string]string{"resource": "jobs%2F42", "got": "41", "highest": "57"}, details.GetMetadata())
	assert.Equal(t, "b", s.values[job])
}

func TestCallWithoutATokenIsRefusedByTheServer(t *testing.T) {
	for name, gate := range map[string]*fencing.Gate{"gate": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			_, bare := start(t, newService(), gate)
			_, err := call(t.Context(), bare, "Write", "x")
			st, details := info(t, err)
			assert.Equal(t, codes.FailedPrecondition, st.Code())
			assert.Equal(t, "NO_FENCING_TOKEN", details.GetReason())

			stream, err := bare.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/Values/Writes")
			require.NoError(t, err)
			assert.Equal(t, codes.FailedPrecondition, status.Code(stream.RecvMsg(&text{})))
		})
	}
}

func TestGarbledOrRepeatedTokenIsAnInvalidArgument(t *testing.T) {
	for name, gate := range map[string]*fencing.Gate{"gate": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			_, bare := start(t, newService(), gate)
			for _, values := range [][]string{{""}, {"57"}, {"0 a"}, {"-1 a"}, {"57 a/b"}, {"57 a", "57 a"}, {"57 a,57 a"}} {
				ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{grpcfence.Key: values})
				_, err := call(ctx, bare, "Write", "x")
				st, details := info(t, err)
				assert.Equal(t, codes.InvalidArgument, st.Code(), "%q", values)
				assert.Equal(t, "GARBLED_FENCING_TOKEN", details.GetReason())
			}
		})
	}
}

func TestClientWithoutATokenMakesNoCall(t *testing.T) {
	s := newService()
	fenced, _ := start(t, s, nil)
	for _, ctx := range []context.Context{t.Context(), fencing.NewContext(under(t, 57), "jobs/43", 0)} {
		_, err := call(ctx, fenced, "Write", "x")
		assert.ErrorIs(t, err, fencing.ErrNoToken)
		assert.Equal(t, codes.FailedPrecondition, status.Code(err))
		_, err = fenced.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/Values/Writes")
		assert.ErrorIs(t, err, fencing.ErrNoToken)
	}
	assert.Empty(t, s.values)
}

func TestClientSendsExactlyTheContextsToken(t *testing.T) {
	s := newService()
	fenced, _ := start(t, s, &s.gate)
	ctx := metadata.AppendToOutgoingContext(under(t, 57), grpcfence.Key, "1 other", grpcfence.Key, "2 other")
	_, err := call(ctx, fenced, "Write", "x")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{job: "x"}, s.values)
	md, _ := metadata.FromOutgoingContext(ctx)
	assert.Len(t, md[grpcfence.Key], 2, "the caller's metadata is left alone")
}

func TestStreamOfAHolderThatBecameStaleIsRefusedAtItsNextMessage(t *testing.T) {
	s := newService()
	fenced, _ := start(t, s, &s.gate)
	stream, err := fenced.NewStream(under(t, 41), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/Values/Writes")
	require.NoError(t, err)
	var out text
	require.NoError(t, stream.SendMsg(wrapperspb.String("a")))
	require.NoError(t, stream.RecvMsg(&out))

	_, err = call(under(t, 57), fenced, "Write", "b")
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(wrapperspb.String("late")))
	var stale *fencing.StaleError
	require.ErrorAs(t, stream.RecvMsg(&out), &stale)
	assert.Equal(t, fencing.StaleError{Resource: job, Got: 41, Highest: 57}, *stale)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, "b", s.values[job])
}

// The handler below does not ask again; the interceptor alone must refuse the message.
func TestStreamInterceptorAdmitsEachMessage(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(job, 57))
	got := make(chan error, 3)
	handler := func(_ any, s grpc.ServerStream) error {
		resource, token, ok := fencing.FromContext(s.Context())
		if !ok || resource != job || token != 57 {
			return errors.New("no token in the stream's context")
		}
		got <- s.RecvMsg(nil)
		if err := gate.Admit(job, 58); err != nil {
			return err
		}
		got <- s.RecvMsg(nil)
		return nil
	}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(grpcfence.Key, "57 jobs%2F42"))
	require.NoError(t, grpcfence.StreamServerInterceptor(&gate)(nil, silent{ctx: ctx}, nil, handler))
	assert.NoError(t, <-got)
	assert.Equal(t, codes.FailedPrecondition, status.Code(<-got))
	assert.Equal(t, codes.FailedPrecondition, status.Code(grpcfence.StreamServerInterceptor(&gate)(nil, silent{ctx: ctx}, nil, handler)))
}

type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }
func (s silent) RecvMsg(any) error        { return nil }

func TestOtherErrorsAreLeftAsTheyAre(t *testing.T) {
	for _, err := range []error{nil, errors.New("plain"), status.Error(codes.FailedPrecondition, "another's"), status.Error(codes.NotFound, "x"), malformed(t)} {
		got := grpcfence.UnaryClientInterceptor()(under(t, 57), "", nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return err })
		assert.Equal(t, err, got)
	}
}

func malformed(t *testing.T) error {
	s, err := status.New(codes.FailedPrecondition, "x").WithDetails(&errdetails.ErrorInfo{Domain: grpcfence.Domain, Reason: grpcfence.ReasonStale})
	require.NoError(t, err)
	return s.Err()
}

func TestSharedTokensTravelAsSharedAndAreAdmittedTogether(t *testing.T) {
	s := newService()
	fenced, bare := start(t, s, &s.gate)
	for _, token := range []fencing.Token{57, 55} {
		_, err := call(fencing.NewSharedContext(t.Context(), job, token), fenced, "Read", "")
		require.NoError(t, err)
	}
	_, err := call(metadata.AppendToOutgoingContext(t.Context(), grpcfence.Key, "54 jobs%2F42 shared"), bare, "Read", "")
	require.NoError(t, err)
	var stale *fencing.StaleError
	_, err = call(under(t, 56), fenced, "Write", "late")
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fencing.StaleError{Resource: job, Got: 56, Highest: 57}, *stale)
	_, err = call(under(t, 58), fenced, "Write", "b")
	require.NoError(t, err)
	_, err = call(fencing.NewSharedContext(t.Context(), job, 58), fenced, "Read", "")
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fencing.StaleError{Resource: job, Got: 58, Highest: 58}, *stale)
}

// client is the suite's Store.
type client struct {
	*service
	conn *grpc.ClientConn
}

type carry func(ctx context.Context, resource string, t fencing.Token) context.Context

func (c client) do(ctx context.Context, carry carry, method, resource string, t fencing.Token, value string) (string, error) {
	if err := fencing.Check(resource, t); err != nil {
		return "", err
	}
	return call(carry(ctx, resource, t), c.conn, method, value)
}

func (c client) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return c.do(ctx, fencing.NewContext, "Read", resource, t, "")
}

func (c client) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return c.do(ctx, fencing.NewSharedContext, "Read", resource, t, "")
}

func (c client) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	_, err := c.do(ctx, fencing.NewContext, "Write", resource, t, value)
	return err
}

func TestServiceBehindInterceptorsPassesTheSuite(t *testing.T) {
	open := func(t *testing.T, s *service) fencetest.Store {
		conn, _ := start(t, s, &s.gate)
		return client{s, conn}
	}
	fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store { return open(t, newService()) },
		Join: func(t *testing.T, s fencetest.Store) fencetest.Store { return open(t, s.(client).service) },
		Peek: func(_ context.Context, s fencetest.Store, resource string) (string, error) {
			c := s.(client)
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.values[resource], nil
		},
		Restart: func(t *testing.T, s fencetest.Store) fencetest.Store {
			old := s.(client).service
			again := newService()
			again.values = maps.Clone(old.values)
			require.NoError(t, again.gate.Restore(old.gate.Snapshot()))
			return open(t, again)
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			s.(client).lose.Store(true)
			return s.Write(ctx, resource, token, value)
		},
	}.Run(t)
}

// arrived makes of a call's outgoing metadata what the server has.
func arrived(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	return metadata.NewIncomingContext(ctx, md)
}
