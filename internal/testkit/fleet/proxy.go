//go:build unix

package fleet

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A Proxy stands between the workers and a store, and can cut what passes.
type Proxy struct {
	Path string // to connect to

	lis net.Listener
	wg  sync.WaitGroup

	mu    sync.Mutex
	pairs map[net.Conn]net.Conn
}

// NewProxy listens on path, that of a unix socket, and connects to target for each connection, until the test ends. The target is another socket's path, or HOST:PORT.
func NewProxy(t testing.TB, path, target string) *Proxy {
	t.Helper()
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Path: path, lis: lis, pairs: map[net.Conn]net.Conn{}}
	p.wg.Go(func() { p.accept(target) }) // ends when lis is closed
	t.Cleanup(func() {
		_ = lis.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

func (p *Proxy) accept(target string) {
	network := "tcp"
	if filepath.IsAbs(target) {
		network = "unix"
	}
	for {
		in, err := p.lis.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial(network, target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.pairs[in] = out
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(in, out) }) // ends when either connection is closed
		p.wg.Go(func() { p.pipe(out, in) }) // the same
	}
}

func (p *Proxy) pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	delete(p.pairs, to)
	delete(p.pairs, from)
	p.mu.Unlock()
}

// Cut closes every connection, whatever is on its way.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for in, out := range p.pairs {
		_ = in.Close()
		_ = out.Close()
	}
}
