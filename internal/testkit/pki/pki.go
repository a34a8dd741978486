// Package pki makes certificates for tests.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// Authority is a certificate authority made for one test.
type Authority struct {
	CAFile string // its certificate

	t     testing.TB
	dir   string
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

// New makes an authority.
func New(t testing.TB) *Authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	p := &Authority{t: t, dir: t.TempDir(), cert: cert, key: key, roots: x509.NewCertPool()}
	p.roots.AddCert(cert)
	p.CAFile = p.write("ca.pem", "CERTIFICATE", der)
	return p
}

// write makes a new file: servers may still be reading those before.
func (p *Authority) write(kind, block string, der []byte) string {
	f, err := os.CreateTemp(p.dir, "*-"+kind)
	must(p.t, err)
	must(p.t, pem.Encode(f, &pem.Block{Type: block, Bytes: der}))
	must(p.t, f.Close())
	return f.Name()
}

// Issue makes a certificate for name, as a host name and as a subject, and for loopback if it is "".
func (p *Authority) Issue(name string) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, DNSNames: []string{name},
	}
	if name == "" {
		tmpl.DNSNames, tmpl.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, p.cert, &key.PublicKey, p.key)
	must(p.t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(p.t, err)
	return p.write("cert.pem", "CERTIFICATE", der), p.write("key.pem", "EC PRIVATE KEY", keyDER)
}

// Client is the config of a client that trusts the authority, with a certificate if it has a name.
func (p *Authority) Client(name string) *tls.Config {
	cfg := &tls.Config{RootCAs: p.roots}
	if name != "" {
		cert, err := tls.LoadX509KeyPair(p.Issue(name))
		must(p.t, err)
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Pair is a certificate for name, as Issue makes it.
func (p *Authority) Pair(name string) tls.Certificate {
	pair, err := tls.LoadX509KeyPair(p.Issue(name))
	must(p.t, err)
	return pair
}

// Pool holds the authority.
func (p *Authority) Pool() *x509.CertPool { return p.roots }
