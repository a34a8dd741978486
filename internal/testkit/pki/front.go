package pki

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/internal/testkit/bufdial"
)

// A Front speaks TLS for a server that does not. Its certificates can change while it serves.
type Front struct {
	t    testing.TB
	dial func(ctx context.Context) (net.Conn, error) // to the server

	mu      sync.Mutex
	cfg     *tls.Config
	conns   map[net.Conn]bool
	working sync.WaitGroup
}

// NewFront makes a Front until the test's end.
func NewFront(t testing.TB, dial func(ctx context.Context) (net.Conn, error)) *Front {
	f := &Front{t: t, dial: dial, conns: make(map[net.Conn]bool)}
	t.Cleanup(func() { f.Cut(); f.working.Wait() })
	return f
}

// Show makes new connections show certificate, and, unless clients is nil, demand one that clients
// has issued. All others are cut.
func (f *Front) Show(certificate tls.Certificate, clients *Authority) {
	cfg := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}
	if clients != nil {
		cfg.ClientCAs, cfg.ClientAuth = clients.Pool(), tls.RequireAndVerifyClientCert
	}
	f.mu.Lock()
	f.cfg = cfg
	f.mu.Unlock()
	f.Cut()
}

// Cut ends all connections.
func (f *Front) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
}

// InMemory makes the Front accept connections in memory, and returns how to make them.
func (f *Front) InMemory() func(ctx context.Context, address string) (net.Conn, error) {
	l, dialer := bufconn.Listen(1<<20), bufdial.New()
	f.accept(l)
	return func(ctx context.Context, _ string) (net.Conn, error) { return dialer.Dial(ctx, l) }
}

// OnLoopback makes the Front accept connections on loopback, and returns its address.
func (f *Front) OnLoopback() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(f.t, err)
	f.accept(l)
	return l.Addr().String()
}

func (f *Front) accept(l net.Listener) {
	f.t.Cleanup(func() { _ = l.Close() }) // before Cut
	f.working.Go(func() {                 // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.working.Go(func() { f.serve(c) }) // ends with Cut
		}
	})
}

// serve copies in both directions until one of them ends.
func (f *Front) serve(c net.Conn) {
	f.mu.Lock()
	front := tls.Server(c, f.cfg)
	f.conns[c] = true
	f.mu.Unlock()
	defer f.forget(c)
	if front.Handshake() != nil {
		_, _ = io.Copy(io.Discard, c) // or the client may lose the alert
		return
	}
	back, err := f.dial(context.Background())
	if err != nil {
		return
	}
	defer f.forget(back)
	f.mu.Lock()
	f.conns[back] = true
	f.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{front, back}, {back, front}} {
		both.Go(func() { // ends with either connection
			_, _ = io.Copy(way[0], way[1])
			_ = c.Close()
			_ = back.Close()
		})
	}
	both.Wait()
}

func (f *Front) forget(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = c.Close()
	delete(f.conns, c)
}

// A Dir holds the files of one side.
type Dir struct {
	CA, Cert, Key string
	t             testing.TB
}

// NewDir makes a Dir that is empty.
func NewDir(t testing.TB) *Dir {
	at := t.TempDir()
	return &Dir{filepath.Join(at, "ca.pem"), filepath.Join(at, "cert.pem"), filepath.Join(at, "key.pem"), t}
}

// Trust makes the CA file that of an authority.
func (d *Dir) Trust(a *Authority) { d.copy(a.CAFile, d.CA) }

// Show replaces the certificate and the key by new ones for name.
func (d *Dir) Show(a *Authority, name string) {
	cert, key := a.Issue(name)
	d.copy(cert, d.Cert)
	d.copy(key, d.Key)
}

// Break makes the key one that does not match, and the CA file one that ends too early.
func (d *Dir) Break() {
	_, key := New(d.t).Issue("")
	d.copy(key, d.Key)
	must(d.t, os.Truncate(d.CA, 100))
}

func (d *Dir) copy(from, to string) {
	b, err := os.ReadFile(from)
	must(d.t, err)
	must(d.t, os.WriteFile(to, b, 0o600))
}
