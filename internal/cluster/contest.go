package cluster

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// contest is a connection to one of several addresses, of which it is not known yet which one serves. A
// balancer, a frozen member and a wrong service take connections too. What is written meanwhile is the
// beginning of a handshake; it goes to each address that takes a connection. The first that says something is
// the connection, and the others are closed. Nothing but a handshake is ever sent to two, because what follows
// waits for the other side's part of it.
type contest struct {
	end  context.CancelCauseFunc  // ends the attempts
	done chan struct{}            // closed when it is decided, or closed
	won  atomic.Pointer[net.Conn] // the connection, or nil
	err  error                    // why there is none
	said []byte                   // by the connection, and not read yet

	writing sync.Mutex // before mu: one write at a time, to all rivals
	mu      sync.Mutex
	sent    []byte
	rivals  []net.Conn
}

// join has conn take part, and reports whether it may. Otherwise it closes it.
func (c *contest) join(conn net.Conn) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	over := c.over()
	if !over {
		c.rivals = append(c.rivals, conn)
	}
	sent := c.sent
	c.mu.Unlock()
	if over {
		_ = conn.Close()
		return false
	}
	if len(sent) > 0 {
		_, _ = conn.Write(sent) // if it fails, so does a read
	}
	return true
}

// over reports whether it is decided.
func (c *contest) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// decide ends the contest. conn is the connection, which has said something, or nil if there is none because
// of err. Only the first call counts.
func (c *contest) decide(conn net.Conn, said []byte, err error) {
	c.mu.Lock()
	if c.over() {
		c.mu.Unlock()
		return
	}
	if c.said, c.err = said, err; conn != nil {
		c.won.Store(&conn)
	}
	close(c.done)
	c.sent = nil
	rivals := slices.Clone(c.rivals)
	c.mu.Unlock()
	c.end(net.ErrClosed)
	for _, r := range rivals {
		if r != conn {
			_ = r.Close()
		}
	}
}

// Read implements net.Conn.
func (c *contest) Read(b []byte) (int, error) {
	<-c.done
	won := c.won.Load()
	if won == nil {
		return 0, c.err
	}
	if len(c.said) > 0 {
		n := copy(b, c.said)
		c.said = c.said[n:]
		return n, nil
	}
	return (*won).Read(b)
}

// Write implements net.Conn.
func (c *contest) Write(b []byte) (int, error) {
	if won := c.won.Load(); won != nil { // without a lock, which a late rival needs to be closed
		return (*won).Write(b)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	over, rivals := c.over(), slices.Clone(c.rivals)
	c.sent = append(c.sent, b...)
	c.mu.Unlock()
	if over && c.won.Load() == nil {
		return 0, c.err
	}
	for _, r := range rivals {
		_, _ = r.Write(b) // if it fails, so does a read
	}
	return len(b), nil
}

// Close implements net.Conn.
func (c *contest) Close() error {
	c.decide(nil, nil, net.ErrClosed)
	return c.winner(net.Conn.Close)
}

// current is the connection, or as long as that is not known the first that was made. It may be nil.
func (c *contest) current() net.Conn {
	if won := c.won.Load(); won != nil {
		return *won
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rivals) == 0 {
		return nil
	}
	return c.rivals[0]
}

// LocalAddr implements net.Conn.
func (c *contest) LocalAddr() net.Addr {
	if conn := c.current(); conn != nil {
		return conn.LocalAddr()
	}
	return nil
}

// RemoteAddr implements net.Conn.
func (c *contest) RemoteAddr() net.Addr {
	if conn := c.current(); conn != nil {
		return conn.RemoteAddr()
	}
	return nil
}

// winner calls f with the connection, once there is one.
func (c *contest) winner(f func(net.Conn) error) error {
	if won := c.won.Load(); won != nil {
		return f(*won)
	}
	return nil
}

// SetDeadline implements net.Conn. Deadlines apply once it is decided; until then the goroutine that waits closes it.
func (c *contest) SetDeadline(t time.Time) error {
	return c.winner(func(conn net.Conn) error { return conn.SetDeadline(t) })
}

// SetReadDeadline implements net.Conn.
func (c *contest) SetReadDeadline(t time.Time) error {
	return c.winner(func(conn net.Conn) error { return conn.SetReadDeadline(t) })
}

// SetWriteDeadline implements net.Conn.
func (c *contest) SetWriteDeadline(t time.Time) error {
	return c.winner(func(conn net.Conn) error { return conn.SetWriteDeadline(t) })
}
