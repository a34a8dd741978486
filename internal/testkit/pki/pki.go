// Package pki makes certificates for tests.
package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

// Authority is a certificate authority made for one test, with files.
type Authority struct {
	CAFile string // its certificate

	t      testing.TB
	dir    string
	issuer *Issuer
}

// New makes an authority.
func New(t testing.TB) *Authority {
	issuer, err := NewIssuer()
	must(t, err)
	p := &Authority{t: t, dir: t.TempDir(), issuer: issuer}
	p.CAFile = p.write("ca.pem", issuer.PEM)
	return p
}

// write makes a new file: servers may still be reading those before.
func (p *Authority) write(kind string, text []byte) string {
	f, err := os.CreateTemp(p.dir, "*-"+kind)
	must(p.t, err)
	_, err = f.Write(text)
	must(p.t, err)
	must(p.t, f.Close())
	return f.Name()
}

// Issue makes a certificate for name, as a host name and as a subject, and for loopback if it is "".
func (p *Authority) Issue(name string) (certFile, keyFile string) {
	return p.IssueFor(name, func(c *x509.Certificate) {
		if name == "" {
			c.IPAddresses = Loopback
		} else {
			c.DNSNames = []string{name}
		}
	})
}

// IssueFor makes a certificate with that subject, as change makes it.
func (p *Authority) IssueFor(name string, change func(*x509.Certificate)) (certFile, keyFile string) {
	cert, key, err := p.issuer.Issue(name, change)
	must(p.t, err)
	return p.write("cert.pem", cert), p.write("key.pem", key)
}

// Client is the config of a client that trusts the authority, with a certificate if it has a name.
func (p *Authority) Client(name string) *tls.Config {
	cfg := &tls.Config{RootCAs: p.Pool()}
	if name != "" {
		cfg.Certificates = []tls.Certificate{p.Pair(name)}
	}
	return cfg
}

// Pair is a certificate for name, as Issue makes it.
func (p *Authority) Pair(name string) tls.Certificate {
	pair, err := tls.LoadX509KeyPair(p.Issue(name))
	must(p.t, err)
	return pair
}

// Pool holds the authority.
func (p *Authority) Pool() *x509.CertPool { return p.issuer.Pool() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
