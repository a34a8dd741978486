package faultproxy

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// echo serves connections that say everything back, and end when their client does.
func echo(t testing.TB) string {
	addr, _ := echoing(t)
	return addr
}

// bytesHeard counts what is written to it.
type bytesHeard struct{ atomic.Int64 }

func (n *bytesHeard) Write(b []byte) (int, error) {
	n.Add(int64(len(b)))
	return len(b), nil
}

// echoing is echo that counts what it has heard.
func echoing(t testing.TB) (addr string, heard *bytesHeard) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	heard = &bytesHeard{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.MultiWriter(heard, c), c)
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), heard
}

func dial(t testing.TB, p *Proxy) *net.TCPConn {
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// say sends a word and expects it back within d.
func say(t testing.TB, c net.Conn, word string, d time.Duration) error {
	t.Helper()
	_, err := c.Write([]byte(word))
	require.NoError(t, err)
	return hear(t, c, word, d)
}

func hear(t testing.TB, c net.Conn, word string, d time.Duration) error {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(d)))
	b := make([]byte, len(word))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	require.Equal(t, word, string(b))
	return nil
}

// wait is how long a test looks to see that nothing comes.
const wait = 50 * time.Millisecond

// A word takes the 3 ms that it is delayed, and little more where the kernel has a timer: the
// runtime's own timers round each of the two waits up to whole milliseconds, even on an idle
// machine.
func BenchmarkDelay(b *testing.B) {
	p := Start(b, echo(b))
	c := dial(b, p)
	p.SetDelay(1500*time.Microsecond, 1500*time.Microsecond)
	for b.Loop() {
		require.NoError(b, say(b, c, "a", testscale.Hang))
	}
}

func TestBlackHoleKeepsConnectionsAndBytes(t *testing.T) {
	p := Start(t, echo(t))
	old := dial(t, p)
	p.BlackHole()
	young := dial(t, p)
	assert.Error(t, say(t, old, "a", wait))
	assert.Error(t, say(t, young, "b", wait))
	p.Heal()
	assert.NoError(t, hear(t, old, "a", testscale.Hang))
	assert.NoError(t, hear(t, young, "b", testscale.Hang))
}

func TestSwallowedConnectionsStaySoAndNewOnesAreServed(t *testing.T) {
	p := Start(t, echo(t))
	old := dial(t, p)
	require.NoError(t, say(t, old, "a", testscale.Hang))
	p.Swallow()
	assert.NoError(t, say(t, dial(t, p), "b", testscale.Hang))
	p.Heal()
	assert.Error(t, say(t, old, "c", wait))
}

func TestHoldingOneWayLetsTheOtherThrough(t *testing.T) {
	addr, heard := echoing(t)
	p := Start(t, addr)
	c := dial(t, p)
	p.HoldAnswers()
	assert.Error(t, say(t, c, "a", wait))
	for end := time.Now().Add(testscale.Hang); heard.Load() != 1; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "not heard")
	}
	p.HoldRequests()
	p.down.hold(false)
	assert.NoError(t, hear(t, c, "a", testscale.Hang), "it was answered before requests were held")
	assert.Error(t, say(t, c, "b", wait))
	p.Heal()
	assert.NoError(t, hear(t, c, "b", testscale.Hang))
}

func TestServeTakesAConnectionThatSomebodyElseAccepted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := Start(t, echo(t))
	through := func() net.Conn {
		client, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		accepted, err := l.Accept()
		require.NoError(t, err)
		p.Serve(accepted)
		return client
	}
	c := through()
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	buf := make([]byte, 5)
	_, err = io.ReadFull(c, buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf))
	require.Equal(t, 1, p.Accepted())
	p.Refuse()
	_, err = through().Read(buf)
	require.Error(t, err, "a proxy that refuses resets it")
}
