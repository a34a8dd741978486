package handlers

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// Whatever comes in, the answer is a clear refusal or a success: never an internal error,
// and never silence.
func FuzzCallsRefuseWhatCannotBeRight(f *testing.F) {
	fake := etcdfake.New(etcdfake.Options{Members: 1})
	f.Cleanup(fake.Close)
	web := serve(f, fake, nil, 100)
	const id = "0123456789abcdef0123456789abcdef"
	for _, body := range []string{
		`{}`, `[]`, `{"session":"` + id + `"}`, `{"session":"` + id + `","requestId":"` + id + `","names":["n"],"mode":"EXCLUSIVE"}`,
		`{"session":"` + id + `","requestIds":["` + id + `"]}`, `{"name":"n"}`, `{"name":"\u0000/%2F"}`, `{"prefix":"n"}`, "\x00\xff", `{"value":"!"}`,
	} {
		for method := range byte(8) {
			f.Add(method, body, "application/json")
		}
	}
	f.Add(byte(0), "\x00\x00\x00\x00\x02\x0a\x00", "application/grpc")
	f.Add(byte(1), "\x0a\xff\xff\xff\xff\x0f", "application/proto")
	methods := []string{"Acquire", "Renew", "Release", "Confirm", "Proclaim", "Progress", "Leader", "List", "None"}
	f.Fuzz(func(t *testing.T, method byte, body, kind string) {
		if strings.Contains(body, "aitMs") || strings.Contains(body, "ait_ms") || strings.Contains(body, `\`) {
			return // it would wait
		}
		r, err := http.NewRequest(http.MethodPost, api+methods[int(method)%len(methods)], strings.NewReader(body))
		require.NoError(t, err)
		if strings.ContainsAny(kind, "\r\n\x00") {
			return
		}
		r.Header["Content-Type"] = []string{kind}
		resp, err := web.Do(r)
		if err != nil {
			if strings.Contains(err.Error(), "invalid header") {
				return
			}
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if resp.StatusCode == http.StatusInternalServerError || strings.Contains(string(answer), `"internal"`) {
			t.Fatalf("%d: %s", resp.StatusCode, answer)
		}
	})
}

// withToken lets the fuzz in, as one that is known.
func withToken(l *peer.Listener, next http.Handler) http.Handler {
	l.Token = peer.TokenIs("fuzz")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer fuzz")
		next.ServeHTTP(w, r)
	})
}
