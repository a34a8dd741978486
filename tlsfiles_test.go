package pawl_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// serveHandshakes serves only handshakes. It ends each connection afterwards, and the client connects
// again. It sends whose certificate the client has, or "" if the handshake failed.
func serveHandshakes(t *testing.T, config *tls.Config) (seen <-chan string, address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	out := make(chan string, 100)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() { // ends with the listener
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			who := ""
			if conn := tls.Server(c, config); conn.Handshake() == nil && len(conn.ConnectionState().PeerCertificates) > 0 {
				who = conn.ConnectionState().PeerCertificates[0].Subject.CommonName
			}
			_ = c.Close()
			select {
			case out <- who:
			default: // the test no longer receives
			}
		}
	}()
	return out, l.Addr().String()
}

func TestTheFilesOfTLSAreReadAtEachHandshake(t *testing.T) {
	authority := pki.New(t)
	server, addr := serveHandshakes(t, &tls.Config{
		Certificates: []tls.Certificate{authority.Pair("")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
		NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12,
	})
	files := pawl.TLSFiles{CA: authority.CAFile}
	files.Cert, files.Key = authority.Issue("one")
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: []string{addr}, TLSFiles: files, Lazy: true})
	require.NoError(t, err)
	asked := make(chan struct{})
	go func() { // ends with the client
		defer close(asked)
		_, _ = c.Session(t.Context())
	}()
	assert.Equal(t, "one", <-server)
	cert, key := authority.Issue("two")
	require.NoError(t, os.Rename(key, files.Key))
	require.NoError(t, os.Rename(cert, files.Cert))
	for <-server != "two" {
	}
	require.NoError(t, c.Close())
	<-asked
}

func TestFilesOfTLSThatCannotBeUsedAreAnErrorOfDial(t *testing.T) {
	authority := pki.New(t)
	cert, key := authority.Issue("one")
	_, other := authority.Issue("other")
	for _, c := range []struct {
		cfg  pawl.Config
		want string
	}{
		{pawl.Config{TLSFiles: pawl.TLSFiles{CA: "/nowhere"}}, "Config.TLSFiles.CA: open /nowhere"},
		{pawl.Config{TLSFiles: pawl.TLSFiles{CA: key}}, "holds no certificate"},
		{pawl.Config{TLSFiles: pawl.TLSFiles{Cert: cert}}, "Config.TLSFiles.Cert and Key belong together"},
		{pawl.Config{TLSFiles: pawl.TLSFiles{Cert: cert, Key: other}}, "Config.TLSFiles.Cert and Key: tls: private key does not match"},
		{pawl.Config{TLSFiles: pawl.TLSFiles{CA: authority.CAFile}, TLS: &tls.Config{}}, "both set"},
	} {
		c.cfg.Endpoints, c.cfg.Lazy = []string{"127.0.0.1:1"}, true
		_, err := pawl.Dial(t.Context(), c.cfg)
		assert.ErrorContains(t, err, c.want)
	}
}

func TestAMembersCertificateOfAnotherAuthorityIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 16)
		defer l.Close()
		go func() { // ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pki.New(t).Pair("member")}}).Handshake()
				_ = c.Close()
			}
		}()
		c, err := pawl.Dial(t.Context(), pawl.Config{
			Endpoints: []string{"member:1"}, TLSFiles: pawl.TLSFiles{CA: pki.New(t).CAFile}, Lazy: true,
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() })},
		})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Session(t.Context())
		assert.ErrorContains(t, err, "x509: certificate signed by unknown authority")
	})
}
