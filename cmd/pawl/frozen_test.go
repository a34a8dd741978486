package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A fresh process has its lock while one of three members, wherever it stands among the
// endpoints, takes connections and says nothing, and what it writes is what it writes without that:
// nothing was tried where it might have been applied, and nothing settled. How little time it
// takes is judged in a bubble, in internal/cluster.
// rule: C9
func TestAFreshProcessLocksBesideAFrozenMember(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	frozen := c.Follower(t)
	others := make([]string, 0, 2)
	var oracle pb.KVClient
	for _, m := range c.Members() {
		if m != frozen {
			others = append(others, m.Direct())
			oracle = pb.NewKVClient(m.Conn(t))
		}
	}
	header := func() *pb.ResponseHeader {
		r, err := oracle.Range(context.Background(), &pb.RangeRequest{Key: []byte("a")})
		require.NoError(t, err)
		return r.Header
	}
	writes := func(endpoints ...string) int64 {
		for {
			before := header()
			p := begin(t, strings.Join(endpoints, ","), "lock", "a", "--", "echo", "has it")
			out := p.lines()
			require.Equal(t, "has it", next(t, out))
			require.Zero(t, p.code(t))
			if after := header(); after.RaftTerm == before.RaftTerm {
				return after.Revision - before.Revision
			}
			// A leader that changes may leave what was under way unknown, and that is settled by writes.
		}
	}
	want := writes(frozen.Direct(), others[0], others[1])

	frozen.Pause(t)
	defer frozen.Resume(t) // not before each has had its lock
	for _, endpoints := range [][]string{
		{frozen.Direct(), others[0], others[1]},
		{others[0], frozen.Direct(), others[1]},
		{others[0], others[1], frozen.Direct()},
	} {
		assert.Equal(t, want, writes(endpoints...), endpoints)
	}
}
