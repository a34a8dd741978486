package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
)

// behind puts TLS in front of etcd.
func behind(t *testing.T, etcd *space) *pki.Front {
	return pki.NewFront(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", etcd.Addr())
	})
}

// The files of pawld's connection to etcd are rotated, broken and restored, and its clients keep
// their locks.
// rule: C3
func TestLocksOutliveTheRotationOfEtcdsCertificates(t *testing.T) {
	t.Parallel()
	old, young := pki.New(t), pki.New(t)
	etcd, files := ofShared(t), pki.NewDir(t)
	front := behind(t, etcd)
	front.Show(old.Pair(""), old)
	files.Trust(old)
	files.Show(old, "pawld.test")
	socket := launch.Socket(t)
	p := begin(t, "--endpoints", front.OnLoopback(), "--namespace", etcd.namespace, "--socket", socket, "--health", "127.0.0.1:0",
		"--cacert", files.CA, "--cert", files.Cert, "--key", files.Key)
	p.socket, p.http = socket, unixClient(socket)
	p.waitFor(socket)
	p.hold(1, 1, "kept")
	n := 1
	works := func(about string) {
		front.Cut()
		n++
		p.hold(1, n, "n"+hex32(n))
		require.Equal(t, "HELD", p.locks(1)[0]["state"], about)
	}
	files.Trust(young)
	front.Show(young.Pair(""), old)
	works("another CA")
	files.Show(young, "pawld.test")
	front.Show(young.Pair(""), young)
	works("another certificate")

	files.Break()
	works("broken files")
	works("broken files, again")
	p.awaitSaid("the files for TLS cannot be used")
	p.awaitSaid("does not match")

	front.Show(old.Pair(""), old) // which the files do not fit, as before and as they are
	eventually(t, func() bool {
		_, text := p.health("/readyz")
		return strings.Contains(text, "x509: certificate signed by unknown authority")
	})
	eventually(t, func() bool {
		_, out := p.raw("Acquire", marshal(object{"session": hex32(1), "requestId": hex32(1000), "names": []string{"other"}, "mode": "EXCLUSIVE"}))
		message, _ := out["message"].(string)
		return strings.Contains(message, "does not answer") && strings.Contains(message, "x509: certificate signed by unknown authority")
	})
	files.Trust(old)
	files.Show(old, "pawld.test")
	works("restored files")
	p.hold(1, 1000, "other")
}

// The files of --listen are rotated, broken and restored.
// rule: C3
func TestListenUsesTheFilesOfTheDay(t *testing.T) {
	t.Parallel()
	old, young := pki.New(t), pki.New(t)
	files := pki.NewDir(t)
	files.Trust(old)
	files.Show(old, "old.test")
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, []byte("cn:worker n\n"), 0o600))
	p := start(t, ofShared(t), "", "--listen", "127.0.0.1:0", "--listen-cert", files.Cert, "--listen-key", files.Key, "--client-ca", files.CA, "--policy", policy)
	address := p.address()
	client := func(a *pki.Authority, server *pki.Authority, name string) *http.Client {
		pool := x509.NewCertPool()
		pem, err := os.ReadFile(server.CAFile)
		require.NoError(t, err)
		require.True(t, pool.AppendCertsFromPEM(pem))
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
			RootCAs: pool, ServerName: name, Certificates: []tls.Certificate{a.Pair("worker")}, ClientSessionCache: tls.NewLRUClientSessionCache(0),
		}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	leader := func(c *http.Client, host string) (int, error) {
		status, _, err := post(c, "https://"+address+"/pawl.v1.Locks/Leader", `{"name":"n"}`, "Host", host)
		return status, err
	}
	serves := func(c *http.Client, host, about string) {
		t.Helper()
		status, err := leader(c, host)
		require.NoError(t, err, about)
		require.Equal(t, http.StatusOK, status, about)
	}
	first := client(old, old, "old.test")
	serves(first, "old.test", "the first")
	status, err := leader(client(old, old, "old.test"), "new.test")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status)

	files.Show(old, "new.test")
	second := client(old, old, "new.test")
	serves(second, "new.test", "a certificate with another name")
	serves(first, "old.test", "an open connection")

	files.Trust(young)
	serves(client(young, old, "new.test"), "new.test", "another CA of the clients")
	_, err = leader(client(old, old, "new.test"), "new.test")
	require.Error(t, err, "which does not know the old one")
	second.CloseIdleConnections()
	_, err = leader(second, "new.test")
	require.Error(t, err, "nor what began with it")

	files.Break()
	for range 3 {
		serves(client(young, old, "new.test"), "new.test", "broken files")
	}
	p.awaitSaid("the files for TLS cannot be used")
	p.awaitSaid("does not match")

	files.Trust(old)
	files.Show(young, "old.test")
	serves(client(old, young, "old.test"), "old.test", "restored files")
}
