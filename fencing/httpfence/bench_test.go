package httpfence_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/httpfence"
)

// What Transport and Handler add to a PUT over loopback.
func BenchmarkPut(b *testing.B) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name    string
		handler http.Handler
		tr      func(http.RoundTripper) http.RoundTripper
	}{
		{"bare", ok, func(base http.RoundTripper) http.RoundTripper { return base }},
		{"fenced", httpfence.Handler(&fencing.Gate{}, ok), func(base http.RoundTripper) http.RoundTripper { return httpfence.Transport{Base: base} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			client := http.Client{Transport: c.tr(server.Client().Transport)}
			ctx := fencing.NewContext(b.Context(), "jobs/42", 57)
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader("x"))
				require.NoError(b, err)
				resp, err := client.Do(r)
				require.NoError(b, err)
				require.NoError(b, resp.Body.Close())
			}
		})
	}
}
