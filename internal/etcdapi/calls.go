package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// The methods that are named outside of this package, too.
const (
	TxnMethod            = "/etcdserverpb.KV/Txn"
	LeaseKeepAliveMethod = "/etcdserverpb.Lease/LeaseKeepAlive"
	WatchMethod          = "/etcdserverpb.Watch/Watch"
)

// The two streams that pawl uses.
type (
	WatchStream     = grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse]
	KeepAliveStream = grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]
)

// Range reads a key or a range.
func Range(ctx context.Context, c grpc.ClientConnInterface, r *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return call[pb.RangeResponse](ctx, c, "/etcdserverpb.KV/Range", r, opts)
}

// Txn sends a transaction.
func Txn(ctx context.Context, c grpc.ClientConnInterface, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return call[pb.TxnResponse](ctx, c, TxnMethod, r, opts)
}

// LeaseGrant asks for a lease.
func LeaseGrant(ctx context.Context, c grpc.ClientConnInterface, r *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return call[pb.LeaseGrantResponse](ctx, c, "/etcdserverpb.Lease/LeaseGrant", r, opts)
}

// LeaseRevoke ends a lease.
func LeaseRevoke(ctx context.Context, c grpc.ClientConnInterface, r *pb.LeaseRevokeRequest, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return call[pb.LeaseRevokeResponse](ctx, c, "/etcdserverpb.Lease/LeaseRevoke", r, opts)
}

// LeaseTimeToLive shows what is left of a lease, and its keys.
func LeaseTimeToLive(ctx context.Context, c grpc.ClientConnInterface, r *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return call[pb.LeaseTimeToLiveResponse](ctx, c, "/etcdserverpb.Lease/LeaseTimeToLive", r, opts)
}

// MemberList shows the cluster's members.
func MemberList(ctx context.Context, c grpc.ClientConnInterface, r *pb.MemberListRequest, opts ...grpc.CallOption) (*pb.MemberListResponse, error) {
	return call[pb.MemberListResponse](ctx, c, "/etcdserverpb.Cluster/MemberList", r, opts)
}

// Status shows what a member says of itself.
func Status(ctx context.Context, c grpc.ClientConnInterface, r *pb.StatusRequest, opts ...grpc.CallOption) (*pb.StatusResponse, error) {
	return call[pb.StatusResponse](ctx, c, "/etcdserverpb.Maintenance/Status", r, opts)
}

// Authenticate asks for a token.
func Authenticate(ctx context.Context, c grpc.ClientConnInterface, r *pb.AuthenticateRequest, opts ...grpc.CallOption) (*pb.AuthenticateResponse, error) {
	return call[pb.AuthenticateResponse](ctx, c, "/etcdserverpb.Auth/Authenticate", r, opts)
}

// Watch opens a stream of watches. It lasts until ctx ends.
func Watch(ctx context.Context, c grpc.ClientConnInterface, opts ...grpc.CallOption) (WatchStream, error) {
	return open[pb.WatchRequest, pb.WatchResponse](ctx, c, WatchMethod, opts)
}

// LeaseKeepAlive opens a stream of renewals. It lasts until ctx ends.
func LeaseKeepAlive(ctx context.Context, c grpc.ClientConnInterface, opts ...grpc.CallOption) (KeepAliveStream, error) {
	return open[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse](ctx, c, LeaseKeepAliveMethod, opts)
}

func call[Answer any](ctx context.Context, c grpc.ClientConnInterface, method string, request any, opts []grpc.CallOption) (*Answer, error) {
	answer := new(Answer)
	if err := c.Invoke(ctx, method, request, answer, options(opts)...); err != nil {
		return nil, err
	}
	return answer, nil
}

// both is a stream on which client and server send.
var both = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

func open[Request, Answer any](ctx context.Context, c grpc.ClientConnInterface, method string, opts []grpc.CallOption) (grpc.BidiStreamingClient[Request, Answer], error) {
	stream, err := c.NewStream(ctx, &both, method, options(opts)...)
	if err != nil {
		return nil, err
	}
	return &grpc.GenericClientStream[Request, Answer]{ClientStream: stream}, nil
}

// options adds what generated clients add.
func options(opts []grpc.CallOption) []grpc.CallOption {
	return append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
}
