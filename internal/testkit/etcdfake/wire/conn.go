package wire

import (
	"io"
	"net"
	"syscall"
	"time"
)

// Conn is one end of a connection.
type Conn struct {
	in, out       *pipe
	local, remote Addr
}

// NewConn makes a connection to a member. What clients send goes over up.
func NewConn(up, down *Link, member string) (client, server *Conn) {
	a, b := newPipe(up), newPipe(down)
	client = &Conn{in: b, out: a, local: "client", remote: Addr(member)}
	server = &Conn{in: a, out: b, local: Addr(member), remote: "client"}
	return client, server
}

func (c *Conn) Read(b []byte) (int, error) { return c.in.read(b) }

// Write writes. It reports that the other side has closed only once that can have arrived here. A
// writer that knew earlier than the reader would send into a connection that counts as open.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	if held, _ := c.in.link.state(); err != nil && held && !c.in.isBroken() {
		return len(b), nil
	}
	return n, err
}

// Close ends both directions. The other side still reads what is on its way.
func (c *Conn) Close() error {
	c.out.end(io.EOF, false)
	c.in.end(net.ErrClosed, true)
	return nil
}

// Reset ends the connection for both sides at once.
func (c *Conn) Reset() {
	c.out.end(syscall.ECONNRESET, true)
	c.in.end(syscall.ECONNRESET, true)
}

func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

func (c *Conn) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { c.in.setDeadline(t); return nil }
func (c *Conn) SetWriteDeadline(t time.Time) error { return nil } // writes only wait for room

// Addr is the address of an end.
type Addr string

func (Addr) Network() string  { return "fake" }
func (a Addr) String() string { return string(a) }
