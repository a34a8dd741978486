package pawltest

import (
	"context"
	"net"
	"sync"
)

// A link is one client's connection to the cluster. While it is cut, what either side sends
// waits, and no new connections are made.
type link struct {
	mu   sync.Mutex
	open chan struct{} // closed while the link is not cut
}

func newLink() *link {
	l := &link{open: make(chan struct{})}
	close(l.open)
	return l
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default: // it is cut already
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

// passable is closed while the link is not cut.
func (l *link) passable() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// through makes connections that dial makes go over the link.
func (l *link) through(dial func(ctx context.Context, address string) (net.Conn, error)) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		select {
		case <-l.passable():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, link: l, closed: make(chan struct{})}, nil
	}
}

// A conn is a connection over a link.
type conn struct {
	net.Conn
	link   *link
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if werr := c.wait(); werr != nil {
		return 0, werr
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// wait waits until the link is not cut. It returns an error if the connection was closed.
func (c *conn) wait() error {
	select {
	case <-c.link.passable():
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
