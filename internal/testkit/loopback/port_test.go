package loopback

import (
	"net"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestReservedPortRefusesUntilSomeoneListens(t *testing.T) {
	p, err := Reserve()
	require.NoError(t, err)
	defer p.Release()
	for range 3 { // and again after each listener is gone
		_, err = net.Dial("tcp", p.String())
		require.Error(t, err)
		l, err := p.Listen()
		require.NoError(t, err)
		for range 20 {
			c, err := net.Dial("tcp", p.String())
			require.NoError(t, err)
			s, err := l.Accept()
			require.NoError(t, err)
			require.NoError(t, c.Close())
			require.NoError(t, s.Close())
		}
		require.NoError(t, l.Close())
	}
}

func TestReservedPortIsNobodyElses(t *testing.T) {
	if !Shared {
		t.Skip("this system cannot keep a port")
	}
	p, err := Reserve()
	require.NoError(t, err)
	defer p.Release()
	_, err = net.Listen("tcp", p.String())
	assert.Error(t, err)
	seen := map[int]bool{p.Number(): true}
	for range 50 {
		q, err := Reserve()
		require.NoError(t, err)
		defer q.Release()
		assert.False(t, seen[q.Number()])
		seen[q.Number()] = true
	}
}
