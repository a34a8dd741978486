package httpfence_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/httpfence"
	"github.com/pawl-locks/pawl/internal/testkit/pairbench"
)

// The cost that Transport and Handler add to a PUT over loopback.
func BenchmarkPut(b *testing.B) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	ctx := fencing.NewContext(b.Context(), "jobs/42", 57)
	put := func(h http.Handler, wrap func(http.RoundTripper) http.RoundTripper) func() error {
		server := httptest.NewServer(h)
		b.Cleanup(server.Close)
		client := http.Client{Transport: wrap(server.Client().Transport)}
		return func() error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader("x"))
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
	}
	pairbench.Run(b,
		pairbench.Way{Name: "bare", Do: put(ok, func(base http.RoundTripper) http.RoundTripper { return base })},
		pairbench.Way{Name: "fenced", Do: put(httpfence.Handler(&fencing.Gate{}, ok), func(base http.RoundTripper) http.RoundTripper { return httpfence.Transport{Base: base} })})
}
