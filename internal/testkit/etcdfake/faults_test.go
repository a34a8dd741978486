package etcdfake

import (
	"io"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// renewals sends on a stream and reads the answers.
func renewals(t *testing.T, c *client) pb.Lease_LeaseKeepAliveClient {
	s, err := c.LeaseKeepAlive(t.Context())
	require.NoError(t, err)
	return s
}

// renew sends one renewal and reads its answer. A stream that the member
// refuses may end before the request is sent: Send says io.EOF then, and Recv
// why.
func renew(t *testing.T, s pb.Lease_LeaseKeepAliveClient, id int64) (*pb.LeaseKeepAliveResponse, error) {
	t.Helper()
	if err := s.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != io.EOF {
		require.NoError(t, err)
	}
	return s.Recv()
}
