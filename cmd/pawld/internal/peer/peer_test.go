package peer

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func uris(t *testing.T, all ...string) (out []*url.URL) {
	for _, text := range all {
		u, err := url.Parse(text)
		require.NoError(t, err)
		out = append(out, u)
	}
	return out
}

func TestIdentitiesOfCertificates(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		cn, uri, other string
		ended          bool
		want, refused  string
	}{
		"one URI":              {uri: "spiffe://example.org/cart", cn: "x", want: "spiffe://example.org/cart"},
		"common name":          {cn: "worker", want: "cn:worker"},
		"a name like a user":   {cn: "uid:0", want: "cn:uid:0"},
		"several URIs":         {uri: "spiffe://a/b", other: "spiffe://a/c", refused: "has 2 URIs"},
		"a URI like a user":    {uri: "uid:0", refused: "pawld's own"},
		"a URI like a name":    {uri: "cn:worker", refused: "pawld's own"},
		"a URI like a token":   {uri: "token:local", refused: "pawld's own"},
		"a URI without scheme": {uri: "worker", refused: "pawld's own"},
		"neither":              {refused: "neither a URI nor a common name"},
		"ended":                {cn: "worker", ended: true, refused: "the certificate ended"},
	} {
		t.Run(name, func(t *testing.T) {
			cert := &x509.Certificate{Subject: pkix.Name{CommonName: c.cn}, NotAfter: now.Add(time.Hour)}
			for _, u := range []string{c.uri, c.other} {
				if u != "" {
					cert.URIs = append(cert.URIs, uris(t, u)...)
				}
			}
			if c.ended {
				cert.NotAfter = now.Add(-1)
			}
			got, err := OfCertificate(cert, now)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestATokenFileIsForItsOwnerOrRootsForAGroupOfThisProcess(t *testing.T) {
	for _, c := range []struct {
		mode     os.FileMode
		uid, gid uint32
		want     bool
	}{
		{0o600, 7, 1, true}, {0o400, 0, 1, true}, {0o400, 7, 1, true},
		{0o440, 0, 1000, true}, {0o640, 0, 1000, true}, {0o640, 0, 2000, true}, // as of a Secret with fsGroup
		{0o440, 0, 1, false}, {0o640, 0, 1, false}, // another group
		{0o440, 7, 1000, false}, {0o640, 1000, 1000, false}, // not root's
		{0o660, 0, 1000, false}, {0o450, 0, 1000, false}, // more than to read
		{0o444, 0, 1000, false}, {0o644, 0, 1000, false}, {0o601, 7, 1, false}, {0o641, 0, 1000, false}, // everybody
	} {
		assert.Equal(t, c.want, private(c.mode, &syscall.Stat_t{Uid: c.uid, Gid: c.gid}, []int{1000, 2000}), "%v of %d:%d", c.mode, c.uid, c.gid)
	}
	assert.False(t, private(0o640, nil, []int{1000}))
}

// rule: V7
func TestATokenFileIsReadAtEachRequest(t *testing.T) {
	const first, second = "first-0123456789", "second-0123456789"
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	var log bytes.Buffer
	_, err := TokenIn(path, slog.New(slog.NewTextHandler(&log, nil)))
	require.ErrorContains(t, err, "no such file", "at first")
	write(first)
	accepts, err := TokenIn(path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func()
		fault  string
	}{
		"missing":         {func() { require.NoError(t, os.Remove(path)) }, "no such file"},
		"empty":           {func() { write("") }, "a token of 0 bytes"},
		"short":           {func() { write("short") }, "a token of 5 bytes"},
		"others' to read": {func() { write(second); require.NoError(t, os.Chmod(path, 0o604)) }, "can be read by others"},
		"another one":     {func() { write(second + "\n") }, ""},
		"renamed to there": {func() {
			require.NoError(t, os.WriteFile(path+".new", []byte(second), 0o400))
			require.NoError(t, os.Rename(path+".new", path))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			_ = os.Remove(path)
			write(first)
			require.True(t, accepts(first))
			log.Reset()
			c.change()
			for range 3 {
				assert.Equal(t, c.fault != "", accepts(first))
				assert.Equal(t, c.fault == "", accepts(second))
				assert.False(t, accepts(""))
			}
			if c.fault == "" {
				assert.Empty(t, log.String())
				return
			}
			assert.Equal(t, 1, strings.Count(log.String(), "\n"), "%s", &log)
			assert.Contains(t, log.String(), c.fault)
			_ = os.Remove(path)
			write(second)
			assert.True(t, accepts(second))
			assert.False(t, accepts(first))
			assert.Equal(t, 2, strings.Count(log.String(), "\n"), "%s", &log)
			assert.Contains(t, log.String(), "can be used again")
		})
	}
	assert.NotContains(t, log.String(), first)
}
