// Package tlsfiles makes TLS configurations from PEM files that may change while a program runs.
//
// # What it guarantees
//
//  1. Each handshake uses what the files contain at that time. They are read at each handshake, not
//     watched, so there is no goroutine, no timer, and no time during which a change goes unnoticed.
//  2. A file that cannot be used (it is missing, contains no certificate, ends within one, or has the
//     key of another) changes nothing. The last content that could be used remains in use. The
//     authorities are independent of a certificate and its key. A pair of which only one file was
//     replaced so far is not used.
//  3. Each fault is logged once, at its beginning, and so is its end.
//
// # What it does not
//
// It does not end an existing connection when a file changes.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
)

// Names are the names of the files; "" means none. Cert and Key belong together.
type Names struct {
	CA   string // authorities by which the other side's certificate is verified
	Cert string // this side's certificate, with its chain
	Key  string // its private key
}

// Labels name the settings in errors.
type Labels struct {
	CA   string
	Pair string // of Cert and Key
}

// Files are read again for each Client and at each handshake of a Server. Its methods are safe for
// concurrent use.
type Files struct {
	ca   *kept[*x509.CertPool]
	pair *kept[*tls.Certificate]

	hosts hosts
}

// Open reads the files, all of which must be usable.
func Open(n Names, l Labels) (*Files, error) {
	f := &Files{}
	if (n.Cert == "") != (n.Key == "") {
		return nil, fmt.Errorf("%s belong together", l.Pair)
	}
	if n.CA != "" {
		f.ca = &kept[*x509.CertPool]{label: l.CA, names: []string{n.CA}, parse: func(text [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(text[0]) {
				return nil, fmt.Errorf("%s holds no certificate", n.CA)
			}
			return pool, whole(text[0])
		}}
		if err := f.ca.read(); err != nil {
			return nil, err
		}
	}
	if n.Cert != "" {
		f.pair = &kept[*tls.Certificate]{label: l.Pair, names: []string{n.Cert, n.Key}, parse: func(text [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(text[0], text[1])
			if err == nil {
				err = whole(text[0])
			}
			if err == nil {
				f.hosts.add(pair.Leaf)
			}
			return &pair, err
		}}
		if err := f.pair.read(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Client is the configuration of a client's next handshake. log gets what cannot be used, and must not
// block.
func (f *Files) Client(log *slog.Logger) *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.ca.now(log)}
	if pair := f.pair.now(log); pair != nil {
		t.Certificates = []tls.Certificate{*pair}
	}
	return t
}

// Server is the configuration of a server that demands a client's certificate. Each handshake uses what
// the files contain then. Files needs all three. log is as for Client.
func (f *Files) Server(log *slog.Logger) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: f.ca.now(log),
			Certificates: []tls.Certificate{*f.pair.now(log)}, NextProtos: []string{"h2", "http/1.1"},
		}, nil
	}}
}

// Names reports whether host is a name in this side's certificate, as of the last handshake or an
// earlier one. Earlier ones count because a connection keeps the certificate that it was made with.
func (f *Files) Names(host string) bool { return f.hosts.has(host) }

// hosts are certificates with different names.
type hosts struct {
	mu  sync.Mutex
	all []*x509.Certificate
}

func (h *hosts) add(leaf *x509.Certificate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.all, func(c *x509.Certificate) bool { return sameNames(c, leaf) }) {
		h.all = append(h.all, leaf)
	}
}

func (h *hosts) has(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.all, func(c *x509.Certificate) bool { return c.VerifyHostname(host) == nil })
}

func sameNames(a, b *x509.Certificate) bool {
	return slices.Equal(a.DNSNames, b.DNSNames) && slices.EqualFunc(a.IPAddresses, b.IPAddresses, net.IP.Equal)
}

// whole returns an error if text ends within a certificate, because the file is still being written.
func whole(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		text = rest
	}
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		return errors.New("it ends within a certificate")
	}
	return nil
}

// kept is the last usable content of files.
type kept[T any] struct {
	label string
	names []string
	parse func(text [][]byte) (T, error)

	mu    sync.Mutex
	text  [][]byte // the text of value
	value T
	fault string // "" if there is none
}

// now returns what the files contain, or the last content that could be used. For a nil kept it returns
// the zero value.
func (k *kept[T]) now(log *slog.Logger) (value T) {
	if k == nil {
		return value
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	fault := ""
	if err := k.read(); err != nil {
		fault = err.Error()
	}
	switch {
	case fault == k.fault:
	case fault == "":
		log.Info("the files for TLS can be used again", "setting", k.label)
	default:
		log.Error("the files for TLS cannot be used: what they held before is", "error", fault)
	}
	k.fault = fault
	return k.value
}

func (k *kept[T]) read() error {
	text := make([][]byte, len(k.names))
	same := k.text != nil
	for i, name := range k.names {
		var err error
		if text[i], err = os.ReadFile(name); err != nil {
			return fmt.Errorf("%s: %w", k.label, err)
		}
		same = same && bytes.Equal(text[i], k.text[i])
	}
	if same {
		return nil
	}
	value, err := k.parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", k.label, err)
	}
	k.text, k.value = text, value
	return nil
}
