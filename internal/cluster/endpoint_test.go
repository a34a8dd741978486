package cluster

import (
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestEndpointsAreParsed(t *testing.T) {
	for text, want := range map[string]endpoint{
		"etcd-1:2379":              {"etcd-1:2379", "passthrough:///etcd-1:2379", false},
		"http://etcd-1:2379":       {"etcd-1:2379", "passthrough:///etcd-1:2379", false},
		"http://etcd-1:2379/":      {"etcd-1:2379", "passthrough:///etcd-1:2379", false},
		"https://etcd-1:2379/":     {"etcd-1:2379", "passthrough:///etcd-1:2379", true},
		"HTTPS://Etcd.Example:443": {"etcd.example:443", "passthrough:///etcd.example:443", true},
		"127.0.0.1:1":              {"127.0.0.1:1", "passthrough:///127.0.0.1:1", false},
		"[::1]:2379":               {"[::1]:2379", "passthrough:///%5B::1%5D:2379", false},
		"https://[fe80::1]:65535":  {"[fe80::1]:65535", "passthrough:///%5Bfe80::1%5D:65535", true},
		"[fe80::1%eth0]:2379":      {"[fe80::1%eth0]:2379", "passthrough:///%5Bfe80::1%25eth0%5D:2379", false},
		"unix:///run/etcd.sock":    {"unix:///run/etcd.sock", "unix:///run/etcd.sock", false},
		"unix:/run/etcd.sock":      {"unix:///run/etcd.sock", "unix:///run/etcd.sock", false},
		"unixs:/run/etcd.sock":     {"unix:///run/etcd.sock", "unix:///run/etcd.sock", true},
		"UNIXS:///run/etcd.sock":   {"unix:///run/etcd.sock", "unix:///run/etcd.sock", true},
		"unix:2379":                {"unix:2379", "passthrough:///unix:2379", false},
		"unix:///a b/c%d":          {"unix:///a b/c%d", "unix:///a%20b/c%25d", false},
	} {
		got, err := parseEndpoint(text, false)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestATLSConfigSecuresEndpointsWithoutAScheme(t *testing.T) {
	for _, text := range []string{"a:1", "https://a:1", "unix:///a"} {
		ep, err := parseEndpoint(text, true)
		require.NoError(t, err, text)
		assert.True(t, ep.tls, text)
	}
}

func TestMalformedEndpointsAreRefusedByName(t *testing.T) {
	for text, why := range map[string]string{
		"etcd-1":          "missing port",
		":2379":           "the host is empty",
		"a:":              "port \"\"",
		"a:0":             "port \"0\"",
		"a:65536":         "port \"65536\"",
		"a:http":          "port \"http\"",
		"::1:2379":        "brackets",
		"[::1]":           "missing port",
		"[::g]:1":         "not an IPv6 address",
		"a b:1":           "character",
		"http://a:1//":    "a path",
		"a:1/":            "a path",
		"http://a:1/v3":   "a path",
		"http://a:1?x=y":  "a query",
		"http://a:1#f":    "a fragment",
		"ftp://a:1":       "scheme \"ftp\"",
		"unixs://a":       "absolute path",
		"unix:rel/path":   "absolute path",
		"dns:///a:1":      "scheme \"dns\"",
		"://a:1":          "scheme is empty",
		"http://":         "missing port",
		"unix://":         "absolute path",
		"unix://rel/path": "absolute path",
		"unix:///":        "absolute path",
		"unix:///a?b":     "nothing else",
		"etcd\x00:1":      "character",
	} {
		_, err := parseEndpoints([]string{"good:1", text}, false)
		if assert.Error(t, err, text) {
			assert.Contains(t, err.Error(), why, text)
			assert.Contains(t, err.Error(), "endpoint ")
		}
	}
}

// As etcd's client takes them.
func TestSpacesAndEmptyElementsOfAListOfEndpointsAreIgnored(t *testing.T) {
	for _, list := range [][]string{{"a:1", " b:2"}, {"a:1", "b:2", ""}, {" a:1 ", "", "\tb:2\n", " "}} {
		got, err := parseEndpoints(list, false)
		require.NoError(t, err, "%q", list)
		require.Len(t, got, 2, "%q", list)
		assert.Equal(t, "a:1 b:2", got[0].name+" "+got[1].name, "%q", list)
	}
	for _, list := range [][]string{nil, {""}, {"", " "}} {
		_, err := parseEndpoints(list, false)
		assert.EqualError(t, err, "no endpoint given", "%q", list)
	}
	assert.True(t, wantsTLS([]string{"a:1", " https://b:2"}))
}

func TestPlainHTTPTogetherWithTLSIsRefused(t *testing.T) {
	_, err := parseEndpoints([]string{"http://a:1"}, true)
	assert.EqualError(t, err, `endpoint "http://a:1": http means plain text, but TLS is required by the TLS config or by an https endpoint: say https, or leave the scheme out`)
}

// The password may stand anywhere before the @, whatever the user took for the syntax.
func TestNoEndpointsErrorShowsAPassword(t *testing.T) {
	for _, text := range []string{
		"http://root:secret@a:1", "https://root:secret@a", "root:secret@https://a:1", "root:secret@a:1", "root:secret@a",
		"secret@unix:///a", "//secret@a:1", "root:sec@secret@a:1", "ftp://root:secret@a:1", "secret://x@a:1", "root:secret/x@http://a:1",
	} {
		_, err := Dial(t.Context(), Config{Endpoints: []string{"good:1", text}})
		require.ErrorContains(t, err, "user information", text)
		assert.NotContains(t, err.Error(), "secret", text)
	}
	_, err := parseEndpoint("unix:///run/etcd@a.sock", false)
	require.NoError(t, err)
}

// Nothing is sent in plain text once one of the endpoints demands TLS.
// rule: C2
func TestOneHTTPSEndpointSecuresAll(t *testing.T) {
	c, err := newCluster(Config{Endpoints: []string{"a:1", "HTTPS://b:1", "unix:///c"}})
	require.NoError(t, err)
	defer c.Close()
	for _, m := range c.list() {
		assert.True(t, m.endpoint.tls, m.Endpoint())
	}
	c, err = newCluster(Config{Endpoints: []string{"a:1", "unixs:///c"}})
	require.NoError(t, err)
	defer c.Close()
	for _, m := range c.list() {
		assert.True(t, m.endpoint.tls, m.Endpoint())
	}
	_, err = newCluster(Config{Endpoints: []string{"https://b:1", "http://a:1"}})
	assert.ErrorContains(t, err, `endpoint "http://a:1": http means plain text`)
}

func TestEndpointsNamedTwiceAreMerged(t *testing.T) {
	eps, err := parseEndpoints([]string{"a:1", "http://A:1", "b:1", "a:1"}, false)
	require.NoError(t, err)
	assert.Len(t, eps, 2)
	_, err = parseEndpoints(nil, false)
	assert.EqualError(t, err, "no endpoint given")
}
