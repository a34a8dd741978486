package etcdtest

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
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// authority is a certificate authority that lives as long as the test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	tmpl := template("etcdtest authority")
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(a.path("ca.pem"), a.pem, 0o600); err != nil {
		return nil, err
	}
	return a, a.renew()
}

// renew gives the server another certificate, which it uses for later handshakes.
func (a *authority) renew() error {
	cert, key, err := a.issue("etcdtest server")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"server.pem": cert, "server.key": key} {
		if err := os.WriteFile(a.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
}

// issue makes a certificate for the loopback host with that common name.
func (a *authority) issue(name string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template(name), a.cert, &k.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

func (a *authority) configure(cfg *embed.Config, clientCerts bool) {
	cfg.ClientTLSInfo.CertFile = a.path("server.pem")
	cfg.ClientTLSInfo.KeyFile = a.path("server.key")
	cfg.ClientTLSInfo.TrustedCAFile = a.path("ca.pem")
	cfg.ClientTLSInfo.ClientCertAuth = clientCerts
}

// TLS is a client's configuration that trusts the server and shows a certificate with that common
// name. It is nil without Options.TLS.
func (s *Server) TLS(commonName string) *tls.Config {
	if s.certs == nil {
		return nil
	}
	cfg, err := s.certs.client(commonName)
	if err != nil {
		panic("etcdtest: make a certificate: " + err.Error())
	}
	return cfg
}

// client is the configuration of a client with that common name.
func (a *authority) client(commonName string) (*tls.Config, error) {
	certPEM, keyPEM, err := a.issue(commonName)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
