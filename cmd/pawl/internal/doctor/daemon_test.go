package doctor

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheDoctorDistinguishesALimitFromAStranger(t *testing.T) {
	for want, answer := range map[string]func(w http.ResponseWriter){
		`wrong live       a limit is reached: there are 4 calls under way, and may be no more\n→ .*--max-calls`: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"code":"resource_exhausted","message":"there are 4 calls under way, and may be no more"}`))
		},
		`wrong live       a limit is reached: EOF\n→ .*--max-connections`: func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		`wrong live       refuses this user: "m\\x1b\[2J"`: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"code":"unauthenticated","message":"m\u001b[2J"}`))
		},
		`wrong live       does not answer: it answers "?404.*, and is no pawld`: func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		`wrong ready `: func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"status":"NOT_SERVING"}`)) },
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		p := &daemon{http: &http.Client{Timeout: 10 * time.Second}, base: server.URL}
		assert.Regexp(t, want, notes(func(d *doctor) { d.ready(t.Context(), p) }))
		server.Close()
	}
}
