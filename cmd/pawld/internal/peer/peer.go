// Package peer identifies the other end of a connection. On a Unix socket that is the user, as the
// kernel reports it. With TLS it is the one URI, or else the common name, of the verified
// certificate. On loopback it is the holder of a token. Identities of different kinds differ in
// their first part: uid:1000, cn:worker, spiffe://example.org/worker, token:local.
package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Overflow is the user that the kernel reports for a user without a number here. It does not
// distinguish two tenants.
const Overflow = 65534

// A Kind is how a listener identifies its peers.
type Kind int

// These are the kinds.
const (
	Unix  Kind = iota // by SO_PEERCRED
	TLS               // by their certificates
	Token             // by a token, on loopback
)

// A Listener says how to identify those who connect to it.
type Listener struct {
	Kind  Kind
	Token func(given string) bool // of Token: whether it is right; TokenIs or TokenIn
	Hosts func(host string) bool

	conns sync.Map // net.Conn to *conn, for TLS
}

// conn is what is known about a connection.
type conn struct {
	*Listener
	identity string // of Unix
	pid      int    // of Unix
	err      error

	c      net.Conn // of Unix and TLS
	mu     sync.Mutex
	end    *time.Timer // closes the connection when its certificate expires
	closed bool
}

type key struct{}

// Context is http.Server's ConnContext.
func (l *Listener) Context(ctx context.Context, c net.Conn) context.Context {
	of := &conn{Listener: l}
	switch l.Kind {
	case Unix:
		of.c = c
		of.identity, of.pid, of.err = userOf(c)
	case TLS:
		of.c = c
		l.conns.Store(c, of)
	}
	return context.WithValue(ctx, key{}, of)
}

// State is http.Server's ConnState.
func (l *Listener) State(c net.Conn, st http.ConnState) {
	if st != http.StateClosed && st != http.StateHijacked {
		return
	}
	if v, ok := l.conns.LoadAndDelete(c); ok {
		of := v.(*conn)
		of.mu.Lock()
		defer of.mu.Unlock()
		of.closed = true
		if of.end != nil {
			of.end.Stop()
		}
	}
}

// endsAt closes a connection when its certificate expires, with the calls parked on it.
func (c *conn) endsAt(cert *x509.Certificate, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil && !c.closed {
		c.end = time.AfterFunc(cert.NotAfter.Sub(now), func() { _ = c.c.Close() })
	}
}

func userOf(c net.Conn) (identity string, pid int, err error) {
	u, ok := unixOf(c)
	if !ok {
		return "", 0, errors.New("no Unix socket")
	}
	uid, pid, err := credentials(u)
	if err != nil {
		return "", 0, fmt.Errorf("who is at the other end of the socket is not known: %w", err)
	}
	if uid == Overflow {
		return "", 0, fmt.Errorf("user %d is nobody's: a user of another namespace cannot be distinguished from others", uid)
	}
	return fmt.Sprintf("uid:%d", uid), pid, nil
}

// These are the errors of ProcessOf.
var (
	ErrNoProcess = errors.New("bind is for the Unix socket, where pawld sees the process of its client")
	ErrNoPIDFD   = errors.New("bind needs SO_PEERPIDFD, which Linux has since 6.5")
	ErrExited    = errors.New("bind is refused: the process that made this connection has exited, and another one uses it; connect in the process that is to be bound")
)

// PID is the number of the process that made the connection of a request's context, as it is seen
// from here, or 0 if it is not seen.
func PID(ctx context.Context) int {
	c, _ := ctx.Value(key{}).(*conn)
	if c == nil {
		return 0
	}
	return c.pid
}

// ProcessOf opens that process.
func ProcessOf(ctx context.Context) (*Process, error) {
	c, _ := ctx.Value(key{}).(*conn)
	if c == nil || c.Kind != Unix || c.pid == 0 {
		return nil, ErrNoProcess
	}
	u, ok := unixOf(c.c)
	if !ok {
		return nil, ErrNoProcess
	}
	return openProcess(u)
}

// Identify returns who sent a request, and whether it came over the Unix socket. It refuses a
// request that a browser's page sent, or that was meant for another host.
func Identify(r *http.Request) (identity string, local bool, err error) {
	c, _ := r.Context().Value(key{}).(*conn)
	switch {
	case c == nil:
		return "", false, errors.New("the connection is not known")
	case len(r.Header.Values("Origin")) > 0:
		return "", false, errors.New("a request with an Origin comes from a browser, and is refused")
	case c.Kind == Unix:
		return c.identity, true, c.err
	case !c.Hosts(r.Host):
		return "", false, fmt.Errorf("the request is for host %q, which is not served here", r.Host)
	case c.Kind == Token:
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !c.Token(given) {
			return "", false, errors.New("want the header Authorization: Bearer with the token of --token-file")
		}
		return "token:local", false, nil
	case r.TLS == nil || len(r.TLS.VerifiedChains) == 0:
		return "", false, errors.New("want a client certificate")
	}
	now := time.Now()
	if identity, err = OfCertificate(r.TLS.PeerCertificates[0], now); err == nil {
		c.endsAt(r.TLS.PeerCertificates[0], now)
	}
	return identity, false, err
}

// OfCertificate is the identity in a verified certificate.
func OfCertificate(cert *x509.Certificate, now time.Time) (string, error) {
	switch {
	case now.After(cert.NotAfter):
		return "", fmt.Errorf("the certificate ended at %v", cert.NotAfter)
	case len(cert.URIs) > 1:
		return "", fmt.Errorf("the certificate has %d URIs, want one", len(cert.URIs))
	case len(cert.URIs) == 1:
		u := cert.URIs[0]
		switch u.Scheme {
		case "", "uid", "cn", "token":
			return "", fmt.Errorf("the certificate's URI %q has the scheme %q, which is pawld's own", u, u.Scheme)
		}
		return u.String(), nil
	case cert.Subject.CommonName == "":
		return "", errors.New("the certificate has neither a URI nor a common name")
	}
	return "cn:" + cert.Subject.CommonName, nil
}
