package etcdfake

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestAMemberThatJoinsKnowsNoSimpleTokenOfBefore(t *testing.T) {
	for _, jwt := range []bool{false, true} {
		inBubble(t, Options{Members: 3, JWT: jwt}, func(t *testing.T, c *Cluster) {
			c.EnableAuth("pw")
			c.Member(2).Leave()
			login := func(i int) context.Context {
				r, err := connect(t, c, i).Authenticate(t.Context(), &pb.AuthenticateRequest{Name: "root", Password: "pw"})
				require.NoError(t, err)
				return metadata.AppendToOutgoingContext(t.Context(), rpctypes.TokenFieldNameGRPC, r.Token)
			}
			before := login(0)
			list, err := connect(t, c, 0).MemberList(before, &pb.MemberListRequest{})
			require.NoError(t, err)
			assert.Len(t, list.Members, 2)
			assert.Len(t, c.Endpoints(), 2)
			c.Member(2).Join()
			_, err = connect(t, c, 2).Range(before, get("k"))
			if jwt {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, rpctypes.ErrGRPCInvalidAuthToken)
			}
			_, err = connect(t, c, 0).Range(login(2), get("k"))
			assert.NoError(t, err)
		})
	}
}
