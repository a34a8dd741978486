package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T, text string) (*Policy, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return Load(path)
}

func TestNamesAndPrefixesAreComparedAsBytes(t *testing.T) {
	p, err := load(t, "# who\n\nuid:1000 orders/ report \"with space\" locks=7 sessions=8 \"a=b\" \"#1\" b#\nspiffe://a/b x/\n")
	require.NoError(t, err)
	for name, want := range map[string]bool{
		"orders/1": true, "orders/": true, "orders": false, "orders1": false, "orders/../report2": true,
		"report": true, "report/": false, "reports": false, "Report": false, "with space": true, "a=b": true, "#1": true, "b#": true, "": false, "/orders/1": false, "x/1": false,
	} {
		assert.Equal(t, want, p.Allows("uid:1000", true, name), name)
	}
	for _, identity := range []string{"uid:100", "uid:10000", "uid:01000", " uid:1000", "UID:1000", "cn:uid:1000", ""} {
		assert.False(t, p.Allows(identity, true, "report"), identity)
	}
	assert.True(t, p.Allows("spiffe://a/b", false, "x/1"))
	assert.Equal(t, 7, p.Locks("uid:1000"))
	assert.Equal(t, DefaultLocks, p.Locks("spiffe://a/b"))
	assert.Equal(t, DefaultLocks, p.Locks("uid:1"))
	assert.Equal(t, 8, p.Sessions("uid:1000"))
	assert.Equal(t, DefaultSessions, p.Sessions("spiffe://a/b"))
}

func TestWithoutAPolicyOnlyTheUnixSocketHasNames(t *testing.T) {
	var p *Policy
	assert.True(t, p.Allows("uid:1", true, "any"))
	assert.False(t, p.Allows("cn:x", false, "any"))
	assert.Equal(t, DefaultLocks, p.Locks("uid:1"))
	assert.Equal(t, DefaultSessions, p.Sessions("uid:1"))
}

func TestEachMistakeIsNamedWithItsLine(t *testing.T) {
	long := strings.Repeat("n", 1025)
	for text, want := range map[string]string{
		"uid:1000":                  `:1: identity "uid:1000" has no names`,
		"\nworker x/":               `:2: identity "worker": want uid:NUMBER`,
		"uid:x a":                   `:1: identity "uid:x": want uid: and a number`,
		"uid:-1 a":                  "want uid: and a number",
		"uid:007 a":                 "want uid: and a number",
		"cn: a":                     `identity "cn:"`,
		"uid:1 a\nuid:1 b":          `:2: identity "uid:1" stands on a line before`,
		"uid:1 a*":                  "there are no patterns",
		"uid:1 /":                   `"/" is no name`,
		`uid:1 ""`:                  `"" is no name`,
		"uid:1 a # the shop":        `"#": a comment has a line of its own`,
		"uid:1 a #the shop":         `"#the": a comment has a line of its own`,
		"uid:1 a lcoks=5":           `"lcoks=5": want locks=NUMBER or sessions=NUMBER; a name with = stands in double quotes`,
		"uid:1 a =":                 `"=": want locks=NUMBER`,
		`uid:1 "a"b`:                `"a": want a space after it`,
		"uid:1 " + long:             "the name has 1025 bytes, want at most 1024",
		"uid:1 //pawl/slot/x":       `the name begins with "//pawl/slot/"`,
		"gid:1000 a":                `identity "gid:1000": want uid:NUMBER, cn:NAME, token:local, or a certificate's URI`,
		"user:x a":                  `identity "user:x": want uid:NUMBER`,
		"urn: a":                    `identity "urn:": want uid:NUMBER`,
		"spiffe:// a":               `identity "spiffe://": want uid:NUMBER`,
		"://x a":                    `identity "://x": want uid:NUMBER`,
		"UID:1000 a":                `identity "UID:1000": want uid:NUMBER`,
		"token:mine a":              `identity "token:mine": want token:local`,
		"SPIFFE://x/y a":            `identity "SPIFFE://x/y": of such a certificate it is "spiffe://x/y"`,
		`"spiffe://x/a b" a`:        `of such a certificate it is "spiffe://x/a%20b"`,
		"uid:1 a locks=5 locks=50":  `"locks=50": locks= is on the line twice`,
		"uid:1 a locks=0":           `"locks=0": want locks= and a number`,
		"uid:1 a locks=many":        "want locks= and a number",
		"uid:1 a sessions=-1":       `"sessions=-1": want sessions= and a number`,
		`uid:1 "a`:                  "a double quote without its end",
		"uid:x a\nok\nuid:1 a b c*": ":3: ",
	} {
		_, err := load(t, text)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := Load("/no/such/file")
	assert.ErrorContains(t, err, "policy: open /no/such/file")
}

// What a certificate, a user or a token can be is no mistake.
func TestEachKindOfIdentityMayStandInAPolicy(t *testing.T) {
	for _, identity := range []string{"uid:0", "cn:worker", `"cn:worker 2"`, "token:local", "spiffe://example.org/cart", "https://x", `"arn:aws:iam::1:role/x"`, `"tag:example.org,2026:x"`, "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"} {
		p, err := load(t, identity+" a\n")
		require.NoError(t, err, identity)
		assert.True(t, p.Allows(strings.Trim(identity, `"`), false, "a"), identity)
	}
}

func TestWithinIsWhatOneMayListAndNoMore(t *testing.T) {
	p, err := load(t, "uid:1 orders/ orders/eu/ orders/x report a/b\n")
	require.NoError(t, err)
	for _, c := range []struct {
		p                *Policy
		identity, prefix string
		local            bool
		names, prefixes  []string
	}{
		{p, "uid:1", "", true, []string{"a/b", "report"}, []string{"orders/"}},
		{p, "uid:1", "o", false, nil, []string{"orders/"}},
		{p, "uid:1", "orders/", true, nil, []string{"orders/"}},
		{p, "uid:1", "orders/eu/b", true, nil, []string{"orders/eu/b"}},
		{p, "uid:1", "re", true, []string{"report"}, nil},
		{p, "uid:1", "reports", true, nil, nil},
		{p, "uid:2", "", true, nil, nil},
		{nil, "uid:2", "x", true, nil, []string{"x"}},
		{nil, "cn:2", "x", false, nil, nil},
	} {
		names, prefixes := c.p.Within(c.identity, c.local, c.prefix)
		assert.Equal(t, c.names, names, "%s %q", c.identity, c.prefix)
		assert.Equal(t, c.prefixes, prefixes, "%s %q", c.identity, c.prefix)
	}
}
