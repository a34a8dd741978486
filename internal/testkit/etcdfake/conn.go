package etcdfake

import (
	"io"
	"net"
	"syscall"
	"time"
)

// conn is one end of a connection.
type conn struct {
	in, out       *pipe
	local, remote addr
}

// newConn makes a connection to a member; what clients send goes over up.
func newConn(up, down *link, member string) (client, server *conn) {
	a, b := newPipe(up), newPipe(down)
	client = &conn{in: b, out: a, local: "client", remote: addr(member)}
	server = &conn{in: a, out: b, local: addr(member), remote: "client"}
	return client, server
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close ends both directions. The other side still reads what is on its way.
func (c *conn) Close() error {
	c.out.end(io.EOF, false)
	c.in.end(net.ErrClosed, true)
	return nil
}

// reset ends the connection for both sides at once.
func (c *conn) reset() {
	c.out.end(syscall.ECONNRESET, true)
	c.in.end(syscall.ECONNRESET, true)
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { return nil } // writes only wait for room

type addr string

func (addr) Network() string  { return "fake" }
func (a addr) String() string { return string(a) }
