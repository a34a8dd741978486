package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// endpoint is one parsed element of Config.Endpoints.
type endpoint struct {
	name   string // "host:port" or "unix:///path", as shown to people
	target string // for grpc.NewClient
	tls    bool
}

// wantsTLS reports whether any endpoint of a list demands TLS. Then all of them use it.
func wantsTLS(list []string) bool {
	return slices.ContainsFunc(list, func(text string) bool {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(text), ":")
		return ok && (strings.EqualFold(scheme, "https") && strings.HasPrefix(rest, "//") ||
			strings.EqualFold(scheme, "unixs") && strings.HasPrefix(rest, "/"))
	})
}

// parseEndpoints parses a list and merges duplicates. It ignores spaces around an element, and empty
// elements, which a list with ", " or a comma at its end leaves, unless all are empty. If secure is
// true, every endpoint uses TLS.
func parseEndpoints(list []string, secure bool) ([]endpoint, error) {
	seen := make(map[endpoint]bool, len(list))
	var out []endpoint
	for _, text := range list {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		ep, err := parseEndpoint(text, secure)
		if err != nil {
			return nil, fmt.Errorf("endpoint %q: %w", redact(text), err)
		}
		if !seen[ep] {
			seen[ep] = true
			out = append(out, ep)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no endpoint given")
	}
	return out, nil
}

// errPlain refuses an endpoint that would be used without TLS.
var errPlain = errors.New("http means plain text, but TLS is required by the TLS config or by an https endpoint: say https, or leave the scheme out")

func parseEndpoint(text string, secure bool) (endpoint, error) {
	if scheme, rest, ok := strings.Cut(text, ":"); ok && strings.Contains(rest, "/") {
		switch strings.ToLower(scheme) {
		case "unix":
			return parseUnix(rest, secure)
		case "unixs":
			return parseUnix(rest, true)
		}
	}
	if strings.Contains(text, "@") { // checked first, because other errors may show what precedes the @
		return endpoint{}, fmt.Errorf("an endpoint cannot have user information; use Config.Username and Config.Password")
	}
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		var err error
		if secure, err = secured(scheme, secure); err != nil {
			return endpoint{}, err
		}
		rest = strings.TrimSuffix(after, "/") // of a URL without a path
	}
	name, err := hostPort(rest)
	if err != nil {
		return endpoint{}, err
	}
	// passthrough leaves the name to the dialer, which resolves it again for each connection.
	return endpoint{name: name, target: "passthrough:///" + url.PathEscape(name), tls: secure}, nil
}

// secured reports whether an endpoint with this scheme uses TLS. secure says that the list demands TLS.
func secured(scheme string, secure bool) (bool, error) {
	switch scheme = strings.ToLower(scheme); {
	case scheme == "https":
		return true, nil
	case scheme == "http" && secure:
		return false, errPlain
	case scheme == "http":
		return false, nil
	case scheme == "":
		return false, fmt.Errorf("the scheme is empty")
	}
	return false, fmt.Errorf("scheme %q is not one of http, https, unix, unixs", scheme)
}

// parseUnix parses what follows the scheme, /path or ///path. etcd's client also accepts //path, for a
// path relative to the working directory, and paths without a leading slash.
func parseUnix(rest string, secure bool) (endpoint, error) {
	path := rest
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		path = authority
	}
	if !strings.HasPrefix(path, "/") || len(path) == 1 {
		return endpoint{}, fmt.Errorf("a unix endpoint needs an absolute path: unix:///path, or unixs:///path with TLS")
	}
	if strings.ContainsAny(path, "?#\x00") {
		return endpoint{}, fmt.Errorf("a unix endpoint is a path and nothing else")
	}
	target := (&url.URL{Scheme: "unix", Path: path}).String()
	if !strings.HasPrefix(target, "unix:///") {
		target = "unix://" + path
	}
	return endpoint{name: "unix://" + path, target: target, tls: secure}, nil
}

// hostPort checks "host:port" and returns it in one spelling.
func hostPort(s string) (string, error) {
	if i := strings.IndexAny(s, "/?#"); i >= 0 { // parts of a URL that have no meaning in an endpoint
		return "", fmt.Errorf("an endpoint cannot have %s", map[byte]string{'/': "a path", '?': "a query", '#': "a fragment"}[s[i]])
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if addr, ok := err.(*net.AddrError); ok {
			return "", fmt.Errorf("%s (want host:port, an IPv6 address in brackets)", addr.Err)
		}
		return "", err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	if err := checkHost(host); err != nil {
		return "", err
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

// hostChars are those of a host's name.
const hostChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

func checkHost(host string) error {
	switch _, err := netip.ParseAddr(host); {
	case host == "":
		return fmt.Errorf("the host is empty")
	case strings.Contains(host, ":") && err != nil:
		return fmt.Errorf("%q is not an IPv6 address", host)
	case strings.Contains(host, ":"):
		return nil
	}
	if wrong := strings.TrimLeft(host, hostChars); wrong != "" {
		return fmt.Errorf("host %q has the character %q", host, []rune(wrong)[0])
	}
	return nil
}

// redact removes everything before an @, because any of it may be a password.
func redact(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	return "…" + text[at:]
}
