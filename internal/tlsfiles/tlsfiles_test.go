package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// met returns whose certificate each side of a handshake has seen.
func met(t *testing.T, client, server *tls.Config) (ofClient, ofServer string) {
	l := bufconn.Listen(1 << 16)
	defer l.Close()
	done := make(chan error, 1)
	var s *tls.Conn
	go func() { // ends with the handshake
		b, err := l.Accept()
		if err == nil {
			s = tls.Server(b, server)
			err = s.Handshake()
		}
		if err != nil {
			_ = b.Close()
		}
		done <- err
	}()
	a, err := l.Dial()
	require.NoError(t, err)
	c := tls.Client(a, client)
	if err = c.Handshake(); err != nil {
		_ = a.Close()
	}
	if <-done != nil || err != nil {
		return "", ""
	}
	return s.ConnectionState().PeerCertificates[0].Subject.CommonName, c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// Each file is rotated, broken and restored, on both sides.
// rule: C3
func TestWhatTheFilesHoldCountsAtEachHandshakeIfItCanBeUsed(t *testing.T) {
	first, second := pki.New(t), pki.New(t)
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			dir := t.TempDir()
			names := Names{CA: dir + "/ca", Cert: dir + "/cert", Key: dir + "/key"}
			copied := func(to, from string) {
				text, err := os.ReadFile(from)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(to, text, 0o600))
			}
			issue := func(of *pki.Authority, name string) {
				cert, key := of.Issue(name)
				copied(names.Cert, cert)
				copied(names.Key, key)
			}
			copied(names.CA, first.CAFile)
			issue(first, "one")
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			f, err := Open(names, Labels{CA: "--ca", Pair: "--cert and --key"})
			require.NoError(t, err)
			server := f.Server(logger) // made once
			// is makes a handshake with a peer that has a certificate of of and trusts the first
			// authority. It returns our certificate as the peer saw it.
			is := func(of *pki.Authority) string {
				t.Helper()
				peer := &tls.Config{
					Certificates: []tls.Certificate{of.Pair("peer")}, RootCAs: first.Pool(), ClientCAs: first.Pool(),
					ClientAuth: tls.RequireAndVerifyClientCert, InsecureSkipVerify: side == "server", MaxVersion: tls.VersionTLS12,
				}
				if side == "server" {
					_, seen := met(t, peer, server)
					return seen
				}
				client := f.Client(logger)
				client.ServerName = "peer"
				seen, _ := met(t, client, peer)
				return seen
			}
			faults := func() int { return strings.Count(log.String(), "cannot be used") }
			mended := func() int { return strings.Count(log.String(), "can be used again") }

			assert.Equal(t, "one", is(first))
			issue(first, "two")
			assert.Equal(t, "two", is(first))
			assert.True(t, f.Names("one"), "a connection that was made before may be open")
			assert.True(t, f.Names("two"))
			assert.False(t, f.Names("other"))
			_, other := first.Issue("other")
			copied(names.Key, other) // another's
			for range 3 {
				assert.Equal(t, "two", is(first))
			}
			assert.Equal(t, 1, faults(), log.String())
			require.NoError(t, os.Remove(names.Cert))
			for range 3 {
				assert.Equal(t, "two", is(first))
			}
			assert.Equal(t, 2, faults(), log.String())
			assert.Zero(t, mended())
			issue(first, "three")
			assert.Equal(t, "three", is(first))
			assert.Equal(t, 1, mended())
			issue(first, "three")
			assert.Equal(t, "three", is(first))
			assert.Len(t, f.hosts.all, 3, "a certificate with the same names is not kept")

			assert.Empty(t, is(second), "an authority that it does not know")
			copied(names.CA, second.CAFile)
			assert.Equal(t, "three", is(second))
			assert.Empty(t, is(first))
			require.NoError(t, os.WriteFile(names.CA, []byte("no certificate"), 0o600))
			assert.Equal(t, "three", is(second))
			require.NoError(t, os.Remove(names.CA))
			assert.Equal(t, "three", is(second))
			text, err := os.ReadFile(second.CAFile)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(names.CA, append(text, text[:len(text)/2]...), 0o600))
			assert.Equal(t, "three", is(second))
			assert.Contains(t, log.String(), "--ca: it ends within a certificate")
			assert.Equal(t, 5, faults(), log.String())
			copied(names.CA, first.CAFile)
			assert.Equal(t, "three", is(first))
			assert.Equal(t, 2, mended())
		})
	}
}

func TestFilesThatCannotBeUsedAtFirstAreAnError(t *testing.T) {
	authority := pki.New(t)
	cert, key := authority.Issue("one")
	_, other := authority.Issue("other")
	for _, c := range []struct {
		names Names
		want  string
	}{
		{Names{CA: "/nowhere"}, "CA: open /nowhere"},
		{Names{CA: key}, "CA: " + key + " holds no certificate"},
		{Names{Cert: cert}, "Pair belong together"},
		{Names{Key: key}, "Pair belong together"},
		{Names{Cert: cert, Key: "/nowhere"}, "Pair: open /nowhere"},
		{Names{Cert: cert, Key: other}, "Pair: tls: private key does not match"},
	} {
		_, err := Open(c.names, Labels{CA: "CA", Pair: "Pair"})
		assert.ErrorContains(t, err, c.want)
	}
}
