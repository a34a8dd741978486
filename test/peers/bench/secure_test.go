//go:build linux

package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// With TLS the three do the same work as without, and the server refuses who comes without it.
func TestARunOverTLSCountsWhatEachSends(t *testing.T) {
	t.Parallel()
	e, err := startEtcd(t.Context(), t.TempDir(), 1, true)
	require.NoError(t, err)
	t.Cleanup(e.stop)
	r := &results{flags: flags{short: true}, got: map[string]map[string][][]figures{}}
	s := scenario{Name: "tls-2", Task: "uncontended", Sizes: []int{2}, Span: 200 * time.Millisecond, TTL: longTTL, TLS: true, kits: three, turns: 1}
	require.NoError(t, r.round(t.Context(), e, 0, s))
	for kit, want := range map[string]counts{ours: {"Txn": 2}, theirs: {"DeleteRange": 1, "Txn": 1}, bare: {"Txn": 2}} {
		got := r.of("tls-2", kit, 2)
		require.Len(t, got, 1, kit)
		assert.Positive(t, got[0].Ops)
		assert.Positive(t, got[0].CPU)
		want.reached(t, got[0], kit)
	}
	_, err = scrape(e.addr)
	assert.Error(t, err, "plain text on the address for clients")
}

// A kit without TLS is not measured in plain text instead.
func TestAKitWithoutTLSIsRefusedByASecureServer(t *testing.T) {
	_, err := securedWith(gatewayKit{}, "cert.pem")
	assert.ErrorContains(t, err, "has no TLS")
}

// With TLS on one address a server asks its clients for nothing besides their requests. If that changes, what
// the page says of acknowledgements has to change, too.
func TestOverTLSALockAndItsReleaseAreTwoWrites(t *testing.T) {
	t.Parallel()
	e, err := startEtcd(t.Context(), t.TempDir(), 1, true)
	require.NoError(t, err)
	t.Cleanup(e.stop)
	var writes atomic.Int64
	k, err := securedWith(pawlKit{options: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return countedConn{conn, &writes}, err
	})}}, e.cert)
	require.NoError(t, err)
	c, err := k.dial(t.Context(), e.addr)
	require.NoError(t, err)
	s, err := c.session(t.Context(), longTTL)
	require.NoError(t, err)
	l := s.locker("counted")
	pairs := func(n int) {
		for range n {
			h, err := l.acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.release(t.Context()))
		}
	}
	pairs(20) // what follows a handshake
	before := writes.Load()
	pairs(200)
	assert.Less(t, writes.Load()-before, int64(500), "acknowledgements would make them 800")
}

// countedConn counts writes.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}
