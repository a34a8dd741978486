package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A5, F8: "timed out" is no answer. The leader's proposal stays in its log, and is applied once one
// of its peers, which were stopped, goes on: that one has the shorter log, and elects the leader again.
func TestAWriteThatTimedOutIsAppliedLater(t *testing.T) {
	testscale.OnlyProof(t, "etcd waits 5 s and two election timeouts before it says so")
	c := etcdtest.StartClusterWith(t, 3, etcdtest.ClusterOptions{Options: etcdtest.Options{ElectionTicks: 50}}) // it leads until it has what it is sent
	leader := c.Leader(t)
	var peers []*etcdtest.Member
	for _, m := range c.Members() {
		if m != leader {
			m.Pause(t)
			peers = append(peers, m)
		}
	}
	kv := pb.NewKVClient(leader.Conn(t))
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()
	_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("late")})
	require.ErrorContains(t, err, "timed out")
	peers[0].Resume(t)
	for {
		resp, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("late")}) // linearizable
		require.NoError(t, ctx.Err())
		if err == nil {
			assert.Len(t, resp.Kvs, 1)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	peers[1].Resume(t)
}
