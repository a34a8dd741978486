package etcdtest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/pawl-locks/pawl/internal/testkit/pki"
)

// authority is a certificate authority that lives as long as the test.
type authority struct {
	*pki.Issuer
	dir string
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	issuer, err := pki.NewIssuer()
	if err != nil {
		return nil, err
	}
	a := &authority{issuer, dir}
	if err := os.WriteFile(a.path("ca.pem"), a.PEM, 0o600); err != nil {
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

// issue makes a certificate for the loopback host with that common name.
func (a *authority) issue(name string) (cert, key []byte, err error) {
	return a.Issue(name, func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = pki.Loopback, []string{"localhost"}
	})
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
	return &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
