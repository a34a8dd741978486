package faultproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gate is one direction of all connections.
type gate struct {
	mu      sync.Mutex
	held    bool
	delay   time.Duration
	changed chan struct{} // closed and replaced at each change of held
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) hold(held bool) {
	g.mu.Lock()
	g.held = held
	changed := g.changed
	g.changed = make(chan struct{})
	g.mu.Unlock()
	close(changed)
}

func (g *gate) setDelay(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = d
}

func (g *gate) state() (held bool, delay time.Duration, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held, g.delay, g.changed
}

// pass waits until what was read at the given time may go on. It returns false if the link was cut
// before, which it may notice only after fine.
func (g *gate) pass(at time.Time, cut <-chan struct{}, a *alarm) bool {
	if d := time.Until(at) - fine; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-cut:
			return false
		}
	}
	a.wait(time.Until(at))
	for {
		held, _, changed := g.state()
		if !held {
			return true
		}
		select {
		case <-changed:
		case <-cut:
			return false
		}
	}
}

// link is one client's connection and, once it is made, that to the server.
type link struct {
	client   net.Conn
	done     chan struct{} // closed when it is cut
	swallows atomic.Bool

	mu     sync.Mutex
	server net.Conn
	ended  bool
}

func newLink(client net.Conn) *link { return &link{client: client, done: make(chan struct{})} }

// join adds the server's side. It returns false if the link was cut meanwhile.
func (c *link) join(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = server.Close()
		return false
	}
	c.server = server
	return true
}

// cut ends both sides, with a RST or a FIN.
func (c *link) cut(rst bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.done)
	for _, side := range []net.Conn{c.client, c.server} {
		switch {
		case side == nil:
		case rst:
			reset(side)
		default:
			_ = side.Close()
		}
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Close sends a RST then
	}
	_ = c.Close()
}

// chunk is some bytes on their way, or the end if it has none.
type chunk struct {
	at   time.Time // not to be forwarded before
	data []byte
}

// inFlight is how many chunks may be on their way before reading stops, as with full socket
// buffers.
const inFlight = 1024

// forward moves bytes one way, and then its end, until the link is cut.
func (c *link) forward(from, to net.Conn, g *gate) {
	chunks := make(chan chunk, inFlight)
	var reader sync.WaitGroup
	reader.Go(func() { c.read(from, g, chunks) }) // ends with the connection, or when the link is cut
	defer reader.Wait()
	var a alarm
	defer a.close()
	for ch := range chunks {
		if !g.pass(ch.at, c.done, &a) {
			return
		}
		if c.swallows.Load() {
			continue
		}
		if len(ch.data) == 0 {
			_ = to.(interface{ CloseWrite() error }).CloseWrite()
			continue
		}
		if _, err := to.Write(ch.data); err != nil {
			c.cut(true)
			return
		}
	}
}

// read reads until the end, or until an error, which cuts the link once the bytes before it were
// forwarded.
func (c *link) read(from net.Conn, g *gate, chunks chan<- chunk) {
	defer close(chunks)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		_, delay, _ := g.state()
		at := time.Now().Add(delay)
		if n > 0 && !c.send(chunks, chunk{at, append([]byte(nil), buf[:n]...)}) {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			c.send(chunks, chunk{at: at})
			return
		case err != nil:
			var a alarm
			defer a.close()
			if g.pass(at, c.done, &a) {
				c.cut(true)
			}
			return
		}
	}
}

func (c *link) send(chunks chan<- chunk, ch chunk) bool {
	select {
	case chunks <- ch:
		return true
	case <-c.done:
		return false
	}
}
