//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-locks/pawl/internal/testkit/pki"
)

// secureKit is a kit that can connect with TLS.
type secureKit interface {
	kit
	// secured is the kit with a configuration of TLS.
	secured(*tls.Config) kit
}

func (k pawlKit) secured(cfg *tls.Config) kit  { k.tls = cfg; return k }
func (k peerKit) secured(cfg *tls.Config) kit  { k.tls = cfg; return k }
func (k floorKit) secured(cfg *tls.Config) kit { k.tls = cfg; return k }

// securedWith returns k, which trusts the certificate in the file cert. If cert is "", there is no TLS.
func securedWith(k kit, cert string) (kit, error) {
	if cert == "" {
		return k, nil
	}
	s, ok := k.(secureKit)
	if !ok {
		return nil, fmt.Errorf("%T has no TLS", k)
	}
	cfg, err := trust(cert)
	if err != nil {
		return nil, err
	}
	return s.secured(cfg), nil
}

// trust is the configuration of a client that trusts the certificate in a file.
func trust(cert string) (*tls.Config, error) {
	text, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in " + cert)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// transport is gRPC's for cfg; without one it is plain text.
func transport(cfg *tls.Config) credentials.TransportCredentials {
	if cfg == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(cfg)
}

const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// certify writes a certificate for the loopback address, and its key, into dir.
func certify(dir string) error {
	issuer, err := pki.NewIssuer()
	if err != nil {
		return err
	}
	cert, key, err := issuer.Issue("pawl-bench", func(c *x509.Certificate) { c.IPAddresses = pki.Loopback })
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, certFile), append(cert, issuer.PEM...), 0o600),
		os.WriteFile(filepath.Join(dir, keyFile), key, 0o600))
}

// secure has a member serve its clients with TLS, on the one address that it has for them, with the
// certificate in dir. It shows its metrics in plain text, at another.
func secure(cfg *embed.Config, dir, metrics string) {
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	cfg.ListenClientUrls[0].Scheme = "https"
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenMetricsUrls = cfg.ListenPeerUrls[:0:0]
	u := cfg.ListenPeerUrls[0]
	u.Host = metrics
	cfg.ListenMetricsUrls = append(cfg.ListenMetricsUrls, u)
}

// withTLS are workers, each with a separate lock, on servers with TLS.
func withTLS() (list []scenario) {
	for _, p := range tlsPoints(1) {
		list = append(list, scenario{Name: p.scenario, Task: "uncontended", Sizes: []int{p.n}, Span: time.Second / 2, TLS: true, kits: three, turns: 3})
	}
	for _, p := range tlsPoints(3) {
		list = append(list, scenario{Name: p.scenario, Task: "uncontended", Sizes: []int{p.n}, Span: time.Second / 2, TLS: true, Members: 3, kits: three})
	}
	return list
}

func tlsPoints(members int) (all []point) {
	for _, p := range workers {
		all = append(all, point{onMembers(members, fmt.Sprintf("tls-%d", p.n)), p.n})
	}
	return all
}
