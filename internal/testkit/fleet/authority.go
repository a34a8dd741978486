//go:build unix

package fleet

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// An authority grants leases on resources, over lines on a unix socket. It answers "acquire WHO RESOURCE
// MODE", where the mode is shared or exclusive, with "granted TOKEN" once its turn has come. It does not
// answer "release RESOURCE TOKEN". A connection that ends gives up its position in the queue, not its
// lease.
type authority struct {
	issuer Issuer
	lis    net.Listener
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	ttl     time.Duration
	locks   map[string]*leased
	conns   map[net.Conn]bool
	granted int
	expired int
	inARow  int // leases that expired since the last release
}

// The modes.
const (
	shared    = "shared"
	exclusive = "exclusive"
)

func newAuthority(path string, ttl time.Duration, issuer Issuer) (*authority, error) {
	lis, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	a := &authority{issuer: issuer, ttl: ttl, lis: lis, locks: map[string]*leased{}, conns: map[net.Conn]bool{}}
	a.wg.Go(a.accept) // ends when lis is closed
	return a, nil
}

func (a *authority) accept() {
	for {
		conn, err := a.lis.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		a.conns[conn] = true
		if a.closed {
			_ = conn.Close()
		}
		a.mu.Unlock()
		a.wg.Go(func() { a.serve(conn) }) // ends with the connection
	}
}

func (a *authority) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		a.mu.Lock()
		delete(a.conns, conn)
		a.mu.Unlock()
	}()
	lines := make(chan string)
	gone := make(chan struct{})
	a.wg.Go(func() { // ends with the connection
		defer close(gone)
		for s := bufio.NewScanner(conn); s.Scan(); {
			lines <- s.Text()
		}
	})
	defer func() { // lets the reader read to the connection's end
		_ = conn.Close()
		for {
			select {
			case <-lines:
			case <-gone:
				return
			}
		}
	}()
	for {
		select {
		case line := <-lines:
			if !a.do(conn, line, gone) {
				return
			}
		case <-gone:
			return
		}
	}
}

func (a *authority) do(conn net.Conn, line string, gone <-chan struct{}) bool {
	var resource, mode string
	var token fencing.Token
	var who int
	if n, _ := fmt.Sscanf(line, "release %s %d", &resource, &token); n == 2 {
		a.release(resource, token)
		return true
	}
	if n, _ := fmt.Sscanf(line, "acquire %d %s %s", &who, &resource, &mode); n != 3 {
		return false
	}
	g := a.enqueue(resource, who, mode == shared)
	select {
	case t := <-g.given:
		_, err := fmt.Fprintf(conn, "granted %d\n", t)
		return err == nil
	case <-gone:
		a.leave(resource, g)
		return false
	}
}

// cut ends one connection.
func (a *authority) cut(rnd *rand.Rand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for conn := range a.conns {
		if n++; rnd.IntN(n) == 0 && len(a.conns) > 0 {
			_ = conn.Close()
			return
		}
	}
}

// close ends all connections and waits.
func (a *authority) close() {
	_ = a.lis.Close()
	a.mu.Lock()
	a.closed = true
	for conn := range a.conns {
		_ = conn.Close()
	}
	for _, l := range a.locks {
		for _, g := range l.holders {
			g.timer.Stop()
		}
	}
	a.mu.Unlock()
	a.wg.Wait()
}
