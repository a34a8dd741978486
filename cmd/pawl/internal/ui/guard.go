package ui

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// policy is what the page may load and run: only its own files, and no inline scripts or styles. No
// string becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard refuses requests that another site may have caused, and makes browsers enforce policy.
func (p *Page) guard(next http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !p.mayBe(r.Host) {
			refuse(w, http.StatusMisdirectedRequest,
				"this page is not served under that name: ask for it by address or as localhost, or start it with --host")
			return
		}
		sameSite.ServeHTTP(w, r)
	})
}

// mayBe reports whether the page is served under host. If a stranger's DNS name pointed here, it
// would be the stranger's site to the browser, which would let its scripts read the answer. An
// address cannot be a stranger's.
func (p *Page) mayBe(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "localhost" || slices.ContainsFunc(p.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}
