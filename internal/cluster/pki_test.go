package cluster

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	tlscreds "google.golang.org/grpc/credentials"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// Hazard C2.
func TestEveryEndpointIsCheckedAgainstItsOwnName(t *testing.T) {
	p := pki.New(t)
	ss := newStubs(t, 0)
	for i, name := range []string{"one.test", "two.test", "three.test"} {
		cert, err := tls.LoadX509KeyPair(p.Issue(name))
		require.NoError(t, err)
		ss.add(name+":2379", uint64(i+1), grpc.Creds(tlscreds.NewServerTLSFromCert(&cert)))
	}
	ss.dead["one.test:2379"] = true
	cfg := ss.config("one.test:2379", "two.test:2379", "https://three.test:2379")
	cfg.TLS = p.Client("")
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

// The client connects to sockets in the form in which etcd writes them, with TLS if the scheme says so.
func TestUnixSocketsServe(t *testing.T) {
	authority := pki.New(t)
	secure := grpc.Creds(tlscreds.NewTLS(&tls.Config{Certificates: []tls.Certificate{authority.Pair("localhost")}}))
	dir, err := os.MkdirTemp("", "") // the path of a socket has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, scheme := range []string{"unix:", "unix://", "unixs:", "unixs://"} {
		t.Run(scheme, func(t *testing.T) {
			ss, path := newStubs(t, 0), filepath.Join(dir, strconv.Itoa(i))
			cfg := Config{Endpoints: []string{scheme + path}}
			var server []grpc.ServerOption
			if strings.HasPrefix(scheme, "unixs") {
				server, cfg.TLS = append(server, secure), authority.Client("")
			}
			l, err := net.Listen("unix", path)
			require.NoError(t, err)
			served, s := make(chan struct{}), ss.add("m0:2379", 1, server...)
			go func() { defer close(served); _ = s.server.Serve(l) }() // ends with Stop
			t.Cleanup(func() { s.server.Stop(); <-served })
			_, err = ss.connect(cfg).Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		})
	}
}
