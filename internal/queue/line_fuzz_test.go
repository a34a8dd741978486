package queue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzLinesOfTwoNames(f *testing.F) {
	for _, n := range []string{"a", "a/b", "/a", "a/", "//pawl", "//pawl/1", "%2F", "a%2Fb", "\x00", "\xff/"} {
		f.Add(n, "a", "")
		f.Add("a/b", n, "ns/")
	}
	f.Fuzz(func(t *testing.T, a, b, namespace string) {
		la, err := NewLine(namespace, a, false)
		if err != nil {
			require.True(t, a == "" || len(a) > maxName)
			return
		}
		require.True(t, strings.HasPrefix(la.Prefix, namespace) && strings.HasSuffix(la.Prefix, "/"))
		require.False(t, strings.HasPrefix(la.Prefix, namespace+sessions), "among the sessions' keys")
		lb, err := NewLine(namespace, b, false)
		if err != nil {
			return
		}
		inside := strings.HasPrefix(la.Prefix, lb.Prefix) || strings.HasPrefix(lb.Prefix, la.Prefix)
		require.Equal(t, a == b, inside, "one name's keys lie among another's")
	})
}

func FuzzAttemptInAKey(f *testing.F) {
	f.Add("a", "1b-2")
	f.Add("a/b", "0-1")
	f.Add("a", "7fffffffffffffff-9223372036854775807")
	f.Fuzz(func(t *testing.T, name, rest string) {
		l, err := NewLine("", name, false)
		if err != nil {
			return
		}
		lease, n, ok := l.attempt(l.Prefix + rest)
		if ok {
			require.Positive(t, lease)
			require.Positive(t, n)
			require.NotContains(t, rest, "/")
		}
		owner, mine := l.owner(l.Prefix + rest)
		require.Equal(t, ok, mine)
		require.Equal(t, lease, owner)
	})
}
