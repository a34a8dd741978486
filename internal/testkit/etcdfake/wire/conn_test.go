package wire

import (
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func pair() (client, server *Conn, up, down *Link) {
	up, down = NewLink(), NewLink()
	client, server = NewConn(up, down, "member")
	return client, server, up, down
}

func TestBytesArriveInOrderAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, up, _ := pair()
		delays := []time.Duration{30 * time.Millisecond, 10 * time.Millisecond}
		up.SetDelay(func() time.Duration { d := delays[0]; delays = delays[1:]; return d })
		start := time.Now()
		for _, s := range []string{"ab", "cd"} {
			_, err := client.Write([]byte(s))
			require.NoError(t, err)
		}
		b := make([]byte, 4)
		_, err := io.ReadFull(server, b)
		require.NoError(t, err)
		assert.Equal(t, "abcd", string(b))
		assert.Equal(t, 30*time.Millisecond, time.Since(start))
	})
}

func TestHeldBytesArriveWhenTheLinkIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, up, _ := pair()
		up.Hold(true)
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, client.Close())
		go func() { time.Sleep(time.Hour); up.Hold(false) }()
		start := time.Now()
		all, err := io.ReadAll(server)
		require.NoError(t, err)
		assert.Equal(t, "x", string(all))
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestACloseIsNoticedWhenItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _, down := pair()
		down.Hold(true)
		require.NoError(t, server.Close())
		n, err := client.Write([]byte("lost"))
		assert.NoError(t, err)
		assert.Equal(t, 4, n)
		go func() { time.Sleep(time.Hour); down.Hold(false) }()
		start := time.Now()
		_, err = client.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, time.Hour, time.Since(start))
		_, err = client.Write([]byte("refused"))
		assert.Error(t, err)
		down.Hold(true)
		require.NoError(t, client.Close())
		_, err = client.Write([]byte("refused"))
		assert.Error(t, err, "it has closed itself")
	})
}

func TestResetIsSeenByBothEnds(t *testing.T) {
	client, server, _, _ := pair()
	_, err := client.Write([]byte("lost"))
	require.NoError(t, err)
	client.Reset()
	for _, c := range []*Conn{client, server} {
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = c.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	}
}

func TestReadEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _, _, _ := pair()
		start := time.Now()
		require.NoError(t, client.SetReadDeadline(start.Add(time.Second)))
		_, err := client.Read(make([]byte, 1))
		require.Error(t, err)
		assert.Equal(t, time.Second, time.Since(start))
	})
}
