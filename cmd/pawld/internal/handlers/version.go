package handlers

import (
	"net/http"

	"github.com/pawl-locks/pawl/internal/version"
)

// server is the version of this program in every answer, which pawl doctor reads.
var server = "pawld " + version.String()

// WithVersion puts the version of this program into every answer.
func WithVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", server)
		next.ServeHTTP(w, r)
	})
}
