package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A pawl lock that waits while files are rotated, broken or restored gets its lock.
// rule: C3
func TestAWaitOutlivesTheRotationOfCertificates(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	for name, c := range map[string]struct {
		happens func(front *pki.Front, files *pki.Dir, young *pki.Authority)
		says    string
		mend    func(front *pki.Front, files *pki.Dir, young *pki.Authority) // once it says so
	}{
		"rotated": {func(front *pki.Front, files *pki.Dir, young *pki.Authority) {
			files.Trust(young)
			files.Show(young, "client.test")
			front.Show(young.Pair(""), young)
		}, "", nil},
		"rotated, the server first": {func(front *pki.Front, files *pki.Dir, young *pki.Authority) {
			front.Show(young.Pair(""), young)
			files.Trust(young)
			files.Show(young, "client.test")
		}, "", nil},
		"broken": {func(front *pki.Front, files *pki.Dir, young *pki.Authority) {
			files.Break()
			front.Cut()
		}, "the files for TLS cannot be used", nil},
		"restored": {
			func(front *pki.Front, files *pki.Dir, young *pki.Authority) {
				files.Break()
				front.Show(young.Pair(""), young)
			}, "x509: certificate signed by unknown authority",
			func(_ *pki.Front, files *pki.Dir, young *pki.Authority) {
				files.Trust(young)
				files.Show(young, "client.test")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, young, files := pki.New(t), pki.New(t), pki.NewDir(t)
			files.Trust(old)
			files.Show(old, "client.test")
			front := pki.NewFront(t, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", s.Addr()) })
			front.Show(old.Pair(""), old)
			client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			mutex := lock.New(client, name, lock.Options{})
			held, err := mutex.Acquire(t.Context())
			require.NoError(t, err)
			p := begin(t, front.OnLoopback(), "lock", "--verbose", "--cacert", files.CA, "--cert", files.Cert, "--key", files.Key, name, "--", "true")
			eventually(t, func() bool {
				q, err := mutex.Queue(t.Context())
				return err == nil && len(q) == 2
			}, "it waits")
			c.happens(front, files, young)
			if c.mend != nil {
				eventually(t, func() bool { return strings.Contains(p.stderr.String(), c.says) }, "it says so")
				c.mend(front, files, young)
			}
			require.NoError(t, held.Release(t.Context()))
			require.Equal(t, 0, p.code(t))
			assert.Contains(t, p.stderr.String(), c.says)
		})
	}
}

// Files that cannot be used at the start are wrong usage, and a certificate that is refused is named.
func TestErrorsOfCertificatesAreNamed(t *testing.T) {
	t.Parallel()
	a := pki.New(t)
	files := pki.NewDir(t)
	files.Trust(pki.New(t))
	front := pki.NewFront(t, func(context.Context) (net.Conn, error) { return nil, net.ErrClosed })
	front.Show(a.Pair(""), nil)
	for _, command := range [][]string{{"lock", "n", "--", "true"}, {"elect", "n", "v"}, {"ls"}} {
		args := append([]string{command[0], "--cacert", files.CA}, command[1:]...)
		p := begin(t, front.OnLoopback(), args...)
		assert.Equal(t, cli.ExitNoCluster, p.code(t))
		assert.Contains(t, p.stderr.String(), "x509: certificate signed by unknown authority")
	}
	p := begin(t, front.OnLoopback(), "doctor", "--cacert", files.CA)
	assert.Contains(t, p.all(), "TLS failed: ")
	assert.Equal(t, 0, begin(t, "", "lock", "--embed", "--cacert", files.CA, "n", "--", "true").code(t), "a server of its own has no TLS")
	files.Break()
	p = begin(t, "127.0.0.1:1", "lock", "--cacert", files.CA, "n", "--", "true")
	assert.Equal(t, cli.ExitUsage, p.code(t))
	assert.Contains(t, p.stderr.String(), "--cacert: "+files.CA+" holds no certificate")
}
