package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// pemFiles writes what cfg shows to a server, and the certificate that the
// server at addr shows, as files for --cert, --key and --cacert.
func pemFiles(t *testing.T, cfg *tls.Config, addr string) (cert, key, cacert string) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, cfg)
	require.NoError(t, err)
	defer conn.Close()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	pair := cfg.Certificates[0]
	pkcs8, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return write("client.pem", "CERTIFICATE", pair.Certificate[0]), write("client.key", "PRIVATE KEY", pkcs8),
		write("ca.pem", "CERTIFICATE", conn.ConnectionState().PeerCertificates[0].Raw)
}

func TestLockWithClientCertificateAndPassword(t *testing.T) {
	t.Parallel()
	s := etcdtest.StartWith(t, etcdtest.Options{TLS: true, ClientCerts: true})
	cert, key, cacert := pemFiles(t, s.TLS("nobody"), s.Addr())
	s.AddUser(t, "backup", "secret", etcdtest.Access{Prefix: "jobs/", Read: true, Write: true})
	s.EnableAuth(t, "rootpw")
	lock := func(user string, more ...string) *program {
		args := append([]string{"lock", "--user", user, "--namespace", "jobs/"}, more...)
		return begin(t, s.Endpoints()[0], append(args, "nightly", "--", "true")...)
	}
	assert.Equal(t, 0, lock("backup:secret", "--cacert", cacert, "--cert", cert, "--key", key).code(t))

	wrong := lock("backup:other", "--cacert", cacert, "--cert", cert, "--key", key)
	assert.Equal(t, cli.ExitNoCluster, wrong.code(t))
	assert.Contains(t, wrong.stderr.String(), "authentication failed")
	assert.Contains(t, wrong.stderr.String(), "check --user")
	assert.NotContains(t, wrong.stderr.String(), "other")

	stranger := lock("backup:secret", "--dial-timeout", "30s") // does not know the authority
	assert.Equal(t, cli.ExitNoCluster, stranger.code(t))
	assert.Contains(t, stranger.stderr.String(), "certificate")
}
