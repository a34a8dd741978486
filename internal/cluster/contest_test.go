package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// contested dials a name with three addresses, whose other sides it returns in the order in which they are
// tried.
func contested(t *testing.T, ctx context.Context) (*addresses, net.Conn, <-chan net.Conn) {
	t.Helper()
	others := make(chan net.Conn, 3)
	c, err := newCluster(Config{
		Endpoints: []string{"etcd.example:2379"},
		lookup: func(context.Context, string) ([]string, error) {
			return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
		},
		dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			others <- there
			return here, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	a := c.list()[0].addresses
	conn, err := a.connect(ctx, patience)
	require.NoError(t, err)
	return a, conn, others
}

// read reads what was written to there so far.
func read(there net.Conn) string {
	b := make([]byte, 100)
	n, _ := there.Read(b)
	return string(b[:n])
}

// Whoever joins later gets what was written before, and only the winner gets what is written after.
// rule: C5
func TestEachRivalGetsTheHandshakeAndOnlyTheFirstThatSpeaksTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn, others := contested(t, t.Context())
		first := <-others
		hello := make(chan string)
		go func() { hello <- read(first) }()
		_, err := conn.Write([]byte("hello"))
		require.NoError(t, err)
		assert.Equal(t, "hello", <-hello)
		second := <-others // a step later
		assert.Equal(t, "hello", read(second))
		third := <-others // does not even read
		go func() { _, _ = io.WriteString(second, "welcome") }()
		b := make([]byte, 3)
		_, err = io.ReadFull(conn, b)
		require.NoError(t, err)
		assert.Equal(t, "wel", string(b))
		go func() { _, _ = conn.Write([]byte("request")) }()
		assert.Equal(t, "request", read(second))
		assert.Empty(t, read(first), "it is closed")
		assert.Empty(t, read(third))
		_, err = io.ReadFull(conn, b)
		require.NoError(t, err)
		assert.Equal(t, "com", string(b))
		require.NoError(t, conn.Close())
		_, err = second.Read(b)
		assert.ErrorIs(t, err, io.EOF)
	})
}

// A contest that is closed says so to its reader, and closes all rivals.
func TestAContestThatIsClosedHasNoWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, conn, others := contested(t, t.Context())
		ended := make(chan error)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
		first, second := <-others, <-others
		require.NoError(t, conn.Close())
		require.ErrorIs(t, <-ended, net.ErrClosed)
		_, err := conn.Write([]byte("more"))
		require.ErrorIs(t, err, net.ErrClosed)
		assert.Empty(t, read(first))
		assert.Empty(t, read(second))
		synctest.Wait()
		assert.Len(t, a.failed, 2, "those that had been tried said nothing")
	})
}

// If all end without a word, so does the connection, and not before.
func TestAContestThatAllLeaveIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn, others := contested(t, t.Context())
		start := time.Now()
		go func() {
			for range 3 {
				_ = (<-others).Close() // the next is tried at once
			}
		}()
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.Zero(t, time.Since(start))
	})
}

// The limit of an attempt to connect is over once there is a connection.
func TestTheEndOfAnAttemptDoesNotEndItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, conn, others := contested(t, ctx)
		cancel()
		synctest.Wait()
		there := <-others
		go func() { _, _ = io.WriteString(there, "welcome") }()
		heard(t, conn)
	})
}

// Attempts that all fail end with the last one's error.
func TestAContestWithoutRivalsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCluster(Config{
			Endpoints: []string{"etcd.example:2379"},
			lookup:    func(context.Context, string) ([]string, error) { return []string{"10.0.0.1", "10.0.0.2"}, nil },
			dial:      func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
		})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.list()[0].addresses.connect(t.Context(), patience)
		assert.True(t, errors.Is(err, syscall.ECONNREFUSED))
	})
}

// Guarantee 10.
func TestCloseWaitsForTheAttemptsToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := new(atomic.Int64)
		c, err := newCluster(Config{Endpoints: []string{"10.0.0.2:2379"}, dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			under.Add(1)
			defer under.Add(-1)
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			return nil, ctx.Err()
		}})
		require.NoError(t, err)
		c.list()[0].ready() // begins to connect
		synctest.Wait()
		require.EqualValues(t, 1, under.Load())
		require.NoError(t, c.Close())
		assert.Zero(t, under.Load())
	})
}

// A rival whose connection is made after the decision is closed, even while the winner takes nothing.
func TestALateRivalIsClosedWhileAWriteToTheWinnerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		winner, late := make(chan net.Conn, 1), make(chan net.Conn, 1)
		c, err := newCluster(Config{
			Endpoints: []string{"etcd.example:2379"},
			lookup:    func(context.Context, string) ([]string, error) { return []string{"10.0.0.1", "10.0.0.2"}, nil },
			dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				here, there := net.Pipe()
				if address == "10.0.0.2:2379" {
					winner <- there
					return here, nil
				}
				<-ctx.Done()
				time.Sleep(time.Second) // it was made in the same instant
				late <- there
				return here, nil
			},
		})
		require.NoError(t, err)
		defer c.Close()
		conn, err := c.list()[0].addresses.connect(t.Context(), patience)
		require.NoError(t, err)
		defer conn.Close()
		go func() { _, _ = io.WriteString(<-winner, "welcome") }()
		_, err = conn.Read(make([]byte, 100))
		require.NoError(t, err)
		go func() { _, _ = conn.Write([]byte("request")) }() // ends when conn is closed
		assert.Empty(t, read(<-late), "it is closed")
	})
}
