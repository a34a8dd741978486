package cluster

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
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	tlscreds "google.golang.org/grpc/credentials"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// pki is a certificate authority made for one test.
type pki struct {
	t     *testing.T
	dir   string
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

func newPKI(t *testing.T) *pki {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	p := &pki{t: t, dir: t.TempDir(), cert: cert, key: key, roots: x509.NewCertPool()}
	p.roots.AddCert(cert)
	p.write("ca.pem", "CERTIFICATE", der)
	return p
}

func (p *pki) write(name, kind string, der []byte) string {
	path := filepath.Join(p.dir, name)
	require.NoError(p.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// issue makes a certificate for name, as a host name and as a subject, and for loopback if it is "".
func (p *pki) issue(name string) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(p.t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, DNSNames: []string{name},
	}
	if name == "" {
		tmpl.DNSNames, tmpl.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, p.cert, &key.PublicKey, p.key)
	require.NoError(p.t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(p.t, err)
	return p.write(name+"cert.pem", "CERTIFICATE", der), p.write(name+"key.pem", "EC PRIVATE KEY", keyDER)
}

// client is the config of a client that trusts the authority, with a certificate if it has a name.
func (p *pki) client(name string) *tls.Config {
	cfg := &tls.Config{RootCAs: p.roots}
	if name != "" {
		cert, err := tls.LoadX509KeyPair(p.issue(name))
		require.NoError(p.t, err)
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg
}

// startEtcd runs a real etcd with TLS, that demands client certificates if mutual.
func (p *pki) startEtcd(t *testing.T, mutual bool) string {
	return startEtcd(t, "https://127.0.0.1:0", func(cfg *embed.Config) {
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = p.issue("")
		cfg.ClientTLSInfo.ClientCertAuth = mutual
		cfg.BcryptCost = 4
		if mutual {
			cfg.ClientTLSInfo.TrustedCAFile = filepath.Join(p.dir, "ca.pem")
		}
	})
}

func permission(key, end string) *authpb.Permission {
	return &authpb.Permission{PermType: authpb.READWRITE, Key: []byte(key), RangeEnd: []byte(end)}
}

// Hazard C2.
func TestEveryEndpointIsCheckedAgainstItsOwnName(t *testing.T) {
	p := newPKI(t)
	ss := newStubs(t, 0)
	for i, name := range []string{"one.test", "two.test", "three.test"} {
		cert, err := tls.LoadX509KeyPair(p.issue(name))
		require.NoError(t, err)
		ss.add(name+":2379", uint64(i+1), grpc.Creds(tlscreds.NewServerTLSFromCert(&cert)))
	}
	ss.dead["one.test:2379"] = true
	cfg := ss.config("one.test:2379", "two.test:2379", "https://three.test:2379")
	cfg.TLS = p.client("")
	c := ss.connect(cfg)
	for range 3 {
		for _, name := range []string{"two.test:2379", "three.test:2379"} {
			_, err := c.Txn(t.Context(), Request{Op: "txn", On: member(t, c, name)}, writing())
			require.NoError(t, err)
		}
	}

	ss.mu.Lock()
	ss.by["one.test:2379"], ss.dead["one.test:2379"] = ss.by["two.test:2379"], false
	ss.mu.Unlock()
	cfg.Endpoints = cfg.Endpoints[:1]
	_, err := Dial(t.Context(), cfg)
	require.ErrorContains(t, err, "one.test:2379: TLS failed")
	assert.ErrorContains(t, err, "two.test")
}
