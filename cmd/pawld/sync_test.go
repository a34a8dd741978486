package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPawldsEndpointsFollowTheMembersIfAsked(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	_, port, err := net.SplitHostPort(etcd.Addr())
	require.NoError(t, err)
	p := start(t, etcd, "", "--endpoints", "localhost:"+port, "--sync-every", "100ms", "-v")
	p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000})
	p.awaitSaid("gone=[localhost:" + port + "]")
}
