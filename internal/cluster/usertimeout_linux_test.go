package cluster

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// Callers whose contexts are short would otherwise use for minutes a connection that swallows what is sent on it.
// rule: C4
func TestTheSystemEndsAConnectionThatAcknowledgesNothing(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	var made net.Conn
	c, err := newCluster(Config{Endpoints: []string{server.Addr().String()}, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		made = conn
		return conn, err
	}})
	require.NoError(t, err)
	defer c.Close()
	conn, err := c.list()[0].connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	raw, err := made.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var limit int
	require.NoError(t, raw.Control(func(fd uintptr) {
		limit, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}))
	require.NoError(t, err)
	assert.EqualValues(t, connectTotal.Milliseconds(), limit)
}
