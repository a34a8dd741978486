package cluster

import (
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// The address of an accepted endpoint parses as the same address, and no user or password appears in an
// error's text.
func FuzzParseEndpoint(f *testing.F) {
	for _, text := range []string{"a:1", "http://a:1", "https://[::1]:2379", "unix:///tmp/s", "https://user:secret@a:1", "a:1/path", "[fe80::1%25eth0]:1", "://", "A.b:65536"} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, withTLS bool) {
		eps, err := parseEndpoints([]string{text, text}, withTLS)
		if err != nil {
			require.Empty(t, eps)
			if _, rest, ok := strings.Cut(text, "//user:secret@"); ok && !strings.Contains(rest, "secret") {
				require.NotContains(t, err.Error(), "secret")
			}
			return
		}
		require.Len(t, eps, 1, "the same one twice is one")
		ep := eps[0]
		require.NotEmpty(t, ep.name)
		require.NotEmpty(t, ep.target)
		again, err := parseEndpoint(ep.name, ep.tls)
		require.NoError(t, err)
		require.Equal(t, ep, again)
	})
}
