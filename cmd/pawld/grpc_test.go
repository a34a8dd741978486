package main

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	pb "github.com/pawl-locks/pawl/cmd/pawld/pawlv1"
	"github.com/pawl-locks/pawl/cmd/pawld/pawlv1/pawlv1connect"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func (p *pawld) grpc() *grpc.ClientConn {
	p.t.Helper()
	conn, err := grpc.NewClient("unix:"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("pawl"))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// What load balancers and kubelets ask, and what grpcurl does.
func TestGRPCsHealthAndReflection(t *testing.T) {
	t.Parallel()
	etcd := ofOwn(t)
	p := start(t, etcd, "")
	p.warm()
	conn := p.grpc()
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()

	health := healthpb.NewHealthClient(conn)
	for _, service := range []string{"", pawlv1connect.LocksName} {
		eventually(t, func() bool { // etcd may be slow
			r, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: service})
			require.NoError(t, err)
			return r.Status == healthpb.HealthCheckResponse_SERVING
		}, service)
	}
	_, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: "pawl.v1.Lock"})
	assert.Equal(t, codes.NotFound, status.Code(err), err)

	stream, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	ask := func(r *reflectpb.ServerReflectionRequest) *reflectpb.ServerReflectionResponse {
		require.NoError(t, stream.Send(r))
		answer, err := stream.Recv()
		require.NoError(t, err)
		return answer
	}
	listed := ask(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}})
	require.Len(t, listed.GetListServicesResponse().GetService(), 1)
	assert.Equal(t, pawlv1connect.LocksName, listed.GetListServicesResponse().Service[0].Name)
	file := ask(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: pawlv1connect.LocksName + ".Acquire"}})
	assert.NotEmpty(t, file.GetFileDescriptorResponse().GetFileDescriptorProto())
	require.NoError(t, stream.CloseSend())

	etcd.Stop()
	eventually(t, func() bool {
		r, err := health.Check(ctx, &healthpb.HealthCheckRequest{})
		return err == nil && r.Status == healthpb.HealthCheckResponse_NOT_SERVING
	}, "no lock can be acquired")
}

// A lock that is acquired over one protocol is renewed and released over the others.
func TestEachProtocolHasAllCalls(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "")
	p.warm()
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()
	clients := map[string]pawlv1connect.LocksClient{
		"Connect":  pawlv1connect.NewLocksClient(p.http, "http://pawl"),
		"gRPC":     pawlv1connect.NewLocksClient(unixHTTP2Client(p.socket), "http://pawl", connect.WithGRPC()),
		"gRPC-Web": pawlv1connect.NewLocksClient(p.http, "http://pawl", connect.WithGRPCWeb()),
	}
	session, id := hex32(1), hex32(2)
	var token int64
	for name, c := range clients {
		acquired, err := c.Acquire(ctx, connect.NewRequest(&pb.AcquireRequest{Session: session, RequestId: id, Names: []string{"x"}, Mode: pb.Mode_EXCLUSIVE, WaitMs: 5000}))
		require.NoError(t, err, name)
		require.Equal(t, pb.State_HELD, acquired.Msg.State, name)
		if token == 0 {
			token = acquired.Msg.Lock.Token
		}
		assert.Equal(t, token, acquired.Msg.Lock.Token, "%s: a repeat finds the same lock", name)
		renewed, err := c.Renew(ctx, connect.NewRequest(&pb.RenewRequest{Session: session}))
		require.NoError(t, err, name)
		assert.Len(t, renewed.Msg.Locks, 1, name)
		_, err = c.Leader(ctx, connect.NewRequest(&pb.LeaderRequest{}))
		assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%s: %v", name, err)
	}
	for name, c := range clients {
		_, err := c.Release(ctx, connect.NewRequest(&pb.ReleaseRequest{Session: session, RequestIds: []string{id}}))
		require.NoError(t, err, name)
	}
}
