package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// parsed are connection flags as args and the environment give them.
func parsed(t *testing.T, args ...string) *connection {
	t.Helper()
	var c connection
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.flags(fs)
	require.NoError(t, fs.Parse(args))
	c.environment(fs)
	return &c
}

func TestEndpointDefaultsToLoopback(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "")
	assert.Equal(t, []string{"127.0.0.1:2379"}, parsed(t).endpoints)
}

func TestEtcdctlVariablesAreUsed(t *testing.T) {
	for name, v := range map[string]string{
		"ETCDCTL_ENDPOINTS": "a:1,b:2", "ETCDCTL_USER": "root:pw:2", "ETCDCTL_CACERT": "ca", "ETCDCTL_CERT": "crt", "ETCDCTL_KEY": "key",
	} {
		t.Setenv(name, v)
	}
	c := parsed(t)
	assert.Equal(t, []string{"a:1", "b:2"}, c.endpoints)
	assert.Equal(t, "ca crt key", c.cacert+" "+c.cert+" "+c.key)
	user, password, err := c.login()
	require.NoError(t, err)
	assert.Equal(t, "root", user)
	assert.Equal(t, "pw:2", password)
}

func TestFlagsWinOverEtcdctlVariables(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "a:1")
	t.Setenv("ETCDCTL_USER", "a:b")
	c := parsed(t, "--endpoints", "c:3,d:4", "--user", "e:f")
	assert.Equal(t, []string{"c:3", "d:4"}, c.endpoints)
	assert.Equal(t, "e:f", c.user)
}

func TestSeparatePasswordLeavesTheUserWhole(t *testing.T) {
	t.Setenv("ETCDCTL_USER", "domain:name")
	t.Setenv("ETCDCTL_PASSWORD", "pw")
	user, password, err := parsed(t).login()
	require.NoError(t, err)
	assert.Equal(t, "domain:name", user)
	assert.Equal(t, "pw", password)
}

func TestUserWithoutPasswordIsWrongUsage(t *testing.T) {
	_, err := parsed(t, "--user", "root").config()
	assert.Equal(t, exitUsage, codeOf(err))
	assert.ErrorContains(t, err, "ETCDCTL_PASSWORD")
}

func TestCertificateWithoutKeyIsWrongUsage(t *testing.T) {
	_, err := parsed(t, "--cert", "x").config()
	assert.Equal(t, exitUsage, codeOf(err))
	_, err = parsed(t, "--cacert", "/no/such/file").config()
	assert.Equal(t, exitUsage, codeOf(err))
}

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
	assert.Equal(t, exitNoCluster, wrong.code(t))
	assert.Contains(t, wrong.stderr.String(), "authentication failed")
	assert.Contains(t, wrong.stderr.String(), "check --user")
	assert.NotContains(t, wrong.stderr.String(), "other")

	stranger := lock("backup:secret", "--dial-timeout", "30s") // does not know the authority
	assert.Equal(t, exitNoCluster, stranger.code(t))
	assert.Contains(t, stranger.stderr.String(), "certificate")
}
