package etcdfake

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func create(r *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// watchKey watches one key, starting at the next revision, if created is awaited.
func watchKey(t *testing.T, a *client, key string, created bool) pb.Watch_WatchClient {
	t.Helper()
	w, err := a.Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Send(create(&pb.WatchCreateRequest{Key: []byte(key)})))
	if created {
		r, err := w.Recv()
		require.NoError(t, err)
		require.True(t, r.Created)
	}
	return w
}
