package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/lease"
)

// awkward are names that have made trouble, alone and as parts of others.
var awkward = []string{"a", "b", "/", "a/b", "a/", "/a", "//", "a\x00", "\x00", "%", "%2F", "%25", "a%2Fb", "ü", "世界", "\xff", "\xff\xff", "//pawl/", "-1", " "}

func name(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(awkward[r.IntN(len(awkward))])
	}
	return b.String()
}

// A17: no key of one name lies in the range of another's, nor among the sessions'
// own keys; and every key is its own name's.
func TestLinesOfDifferentNamesAreDisjoint(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	names := append([]string{strings.Repeat("x", 1024), strings.Repeat("/", 1024), strings.Repeat("x", 1023)}, awkward...)
	for range 300 {
		names = append(names, name(r))
	}
	for _, namespace := range []string{"", "ns", "ns/", "//"} {
		session := lease.SessionKey(namespace, 7)
		lines := map[string]string{} // name by prefix
		for _, n := range names {
			l, err := NewLine(namespace, n, false)
			require.NoError(t, err, "%q", n)
			if other, ok := lines[l.Prefix]; ok {
				assert.Equal(t, other, n, "one prefix %q for two names", l.Prefix)
			}
			lines[l.Prefix] = n
			assert.False(t, strings.HasPrefix(session, l.Prefix), "%q holds the sessions' keys", l.Prefix)
			key := lease.AttemptKey(l.Prefix, 0x1f, 9)
			gotLease, gotN, ok := l.attempt(key)
			assert.Equal(t, []any{int64(0x1f), int64(9), true}, []any{gotLease, gotN, ok}, "%q", key)
			back, etcds, ok := LineOf(namespace, l.Prefix)
			assert.Equal(t, []any{l, false, true}, []any{back, etcds, ok}, "%q", key)
		}
		for p, n := range lines {
			for q, m := range lines {
				if p != q {
					assert.False(t, strings.HasPrefix(q, p), "%q lies in %q: names %q and %q", q, p, m, n)
				}
			}
		}
	}
}

func TestOnlyAttemptsOfPawlsFormAreTaken(t *testing.T) {
	l, err := NewLine("", "n", false)
	require.NoError(t, err)
	for _, bad := range []string{"", "1f", "1f-", "-1", "1f-0", "1f--1", "1f-+1", "1f-01", "1F-1", "01f-1", "0-1", "-1f-1", "1f-1/x", "1f-99999999999999999999", "xyz-1"} {
		_, _, ok := l.attempt("n/" + bad)
		assert.False(t, ok, "%q", bad)
	}
	_, _, ok := l.attempt("m/1f-1")
	assert.False(t, ok)
}

func TestNamesOutOfBoundsAreRefused(t *testing.T) {
	for _, etcd := range []bool{false, true} {
		_, err := NewLine("", "", etcd)
		assert.ErrorContains(t, err, "empty")
		_, err = NewLine("", strings.Repeat("x", 1025), etcd)
		assert.ErrorContains(t, err, "1025")
	}
}

// In etcd's layout a name is verbatim, but never where the sessions' keys are.
func TestEtcdLayoutTakesTheNameVerbatim(t *testing.T) {
	for n, prefix := range map[string]string{"a": "ns/a/", "a/b": "ns/a/b/", "a/": "ns/a//"} {
		l, err := NewLine("ns/", n, true)
		require.NoError(t, err, "%q", n)
		assert.Equal(t, prefix, l.Prefix)
	}
	for _, n := range []string{"/", "//pawl", "//pawl/7", "//pawl/7/1"} {
		_, err := NewLine("", n, true)
		assert.ErrorContains(t, err, "sessions' own keys", "%q", n)
	}
	for namespace, names := range map[string][]string{"": awkward, "ns": awkward, "ns/": awkward} {
		for _, n := range names {
			l, err := NewLine(namespace, n, true)
			if err == nil {
				session := lease.SessionKey(namespace, 7)
				assert.False(t, strings.HasPrefix(session, l.Prefix) || strings.HasPrefix(l.Prefix, namespace+sessions), fmt.Sprintf("%q in %q", n, namespace))
			}
		}
	}
}

func TestLineOfUndoesEtcdsLayoutWhereItIsNotPawls(t *testing.T) {
	for _, name := range []string{"a/b", "a/", "a//b", "/a", "%2F/x", "/a%2fb", "//"} {
		l, err := NewLine("ns/", name, true)
		require.NoError(t, err)
		got, etcds, ok := LineOf("ns/", l.Prefix)
		assert.Equal(t, []any{l, true, true}, []any{got, etcds, ok}, "%q", name)
	}
	for _, prefix := range []string{"", "ns", "ns/", "ns//", "ns/a", "other/a/", "ns///pawl/", "ns///pawl/1f/", "ns/x//pawl/1f/"} {
		_, _, ok := LineOf("ns/", prefix)
		assert.False(t, ok, "%q", prefix)
	}
}
