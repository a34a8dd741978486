package etcdfake

import (
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestOperatorSeesAndDoesEverythingAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		_, err := connect(t, c, 0).LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 10})
		require.NoError(t, err)
		c.BlackHole()
		assert.Equal(t, int64(2), c.Put("b/2", "x", 7))
		assert.Equal(t, int64(3), c.Put("b/1", "y", 99))
		c.Put("c", "", 0)
		assert.Equal(t, []string{"b/1", "b/2"}, c.Keys("b/"))
		assert.Len(t, c.Keys(""), 3)
		assert.Zero(t, c.Get("b/1").Lease)
		assert.Equal(t, []Lease{{7, 10 * time.Second, time.Now().Add(10 * time.Second), []string{"b/2"}}}, c.Leases())
		assert.True(t, c.Revoke(7))
		assert.False(t, c.Revoke(7))
		assert.True(t, c.Delete("c"))
		assert.False(t, c.Delete("c"))
		assert.Equal(t, []string{"b/1"}, c.Keys(""))
		assert.Equal(t, int64(6), c.Revision())
		_, ok := c.Lease(7)
		assert.False(t, ok)
	})
}

func TestChangesAreReportedAtTheirMoment(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		var seen []Change
		c.OnChange(func(ch Change) { seen = append(seen, ch) })
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		_, err = a.Put(t.Context(), put("k", "v", 7))
		require.NoError(t, err)
		_, err = a.LeaseRevoke(t.Context(), &pb.LeaseRevokeRequest{ID: 7})
		require.NoError(t, err)
		assert.Equal(t, c.History(), seen)
		assert.True(t, slices.Equal([]etcd.Cause{etcd.ByClient, etcd.ByRevoke}, []etcd.Cause{seen[0].Why, seen[1].Why}))
		assert.Equal(t, "v", string(seen[0].Value))
		assert.True(t, seen[1].Deleted)
		assert.Equal(t, "revoke", seen[1].Why.String())
	})
}

func TestAccessAndTokensChangeAtOnce(t *testing.T) {
	inBubble(t, Options{TokenTTL: time.Minute}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		c.SetUser("ann", "a", Access{Prefix: "a/", Read: true, Write: true})
		c.EnableAuth("r")
		login := func(password string) (string, error) {
			r, err := a.Authenticate(t.Context(), &pb.AuthenticateRequest{Name: "ann", Password: password})
			return r.GetToken(), err
		}
		write := func(token, key string) codes.Code {
			_, err := a.Put(metadata.AppendToOutgoingContext(t.Context(), "token", token), put(key, "", 0))
			return status.Code(err)
		}
		token, err := login("a")
		require.NoError(t, err)
		assert.Equal(t, codes.OK, write(token, "a/1"))
		assert.Equal(t, codes.PermissionDenied, write(token, "b/1"))
		c.SetUser("ann", "a", Access{Prefix: "b/", Write: true})
		assert.Equal(t, codes.PermissionDenied, write(token, "a/1"))
		assert.Equal(t, codes.OK, write(token, "b/1"))
		c.ForgetTokens()
		assert.Equal(t, codes.Unauthenticated, write(token, "b/1"))
		token, err = login("a")
		require.NoError(t, err)
		assert.Equal(t, 2, c.Tokens())
		c.SetUser("ann", "other")
		assert.Equal(t, codes.Unauthenticated, write(token, "b/1"))
		_, err = login("a")
		assert.Error(t, err)
		c.DisableAuth()
		assert.Equal(t, codes.OK, write(token, "c/1"))
	})
}

func TestCountsAreByMethodAndMember(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		a, b := connect(t, c, 0), connect(t, c, 1)
		w := watchKey(t, a, "k", true)
		before := c.Counts()
		for range 3 {
			_, err := b.Put(t.Context(), put("k", "v", 0))
			require.NoError(t, err)
			_, err = w.Recv()
			require.NoError(t, err)
		}
		_, err := b.Put(t.Context(), put("", "v", 0))
		require.Error(t, err)
		d := c.Counts().Since(before)
		assert.Equal(t, map[string]int{"Put": 4}, d.Received)
		assert.Equal(t, map[string]int{"Put": 3, "Watch": 3}, d.Sent)
		assert.Empty(t, d.Opened)
		assert.Equal(t, map[string]int{"Watch": 1}, c.Member(0).Counts().Opened)
		assert.Empty(t, c.Member(1).Counts().Opened)
	})
}
