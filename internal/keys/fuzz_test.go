package keys

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func FuzzQueuesOfTwoNames(f *testing.F) {
	for _, n := range []string{"a", "a/b", "/a", "a/", "//pawl", "//pawl/1", "%2F", "a%2Fb", "\x00", "\xff/"} {
		f.Add(n, "a", "")
		f.Add("a/b", n, "ns/")
	}
	f.Fuzz(func(t *testing.T, a, b, namespace string) {
		qa, err := NewQueue(namespace, a, false)
		if err != nil {
			require.True(t, a == "" || len(a) > MaxName)
			return
		}
		require.True(t, strings.HasPrefix(qa.Prefix, namespace) && strings.HasSuffix(qa.Prefix, "/"))
		require.False(t, strings.HasPrefix(qa.Prefix, SessionRoot(namespace)), "among the sessions' keys")
		qb, err := NewQueue(namespace, b, false)
		if err != nil {
			return
		}
		inside := strings.HasPrefix(qa.Prefix, qb.Prefix) || strings.HasPrefix(qb.Prefix, qa.Prefix)
		require.Equal(t, a == b, inside, "one name's keys lie among another's")
	})
}

// A prefix that parses as a queue is written back as the same prefix.
func FuzzParseQueue(f *testing.F) {
	for _, p := range []string{"a/", "/a%2Fb/", "a/b/", "//pawl/", "/%2f/", "%/", "//", "/"} {
		f.Add("", p)
		f.Add("ns/", "ns/"+p)
	}
	f.Fuzz(func(t *testing.T, namespace, prefix string) {
		q, ok := ParseQueue(namespace, prefix)
		if !ok {
			return
		}
		require.Equal(t, prefix, q.Prefix)
		again, err := NewQueue(namespace, q.Name, q.EtcdLayout)
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}

// A key is read if and only if the writer writes it so.
func FuzzQueueKeys(f *testing.F) {
	for _, key := range []string{"a/1b-2", "a/b/0-1", "7fffffffffffffff-9223372036854775807", "a/+1b-2", "a/01b-2", "1b-2/"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		prefix, name := Split(key)
		require.Equal(t, key, prefix+name)
		require.NotContains(t, name, "/")
		if k, ok := ParseQueueKey(key); ok {
			require.Positive(t, k.Lease)
			require.Positive(t, k.N)
			require.Equal(t, key, k.In(prefix))
			_, peers := ParsePeerKey(key)
			require.False(t, peers, "of one form only")
		}
		if lease, ok := ParsePeerKey(key); ok {
			require.Positive(t, lease)
			require.Equal(t, SessionKey("", lease), SessionRoot("")+name)
		}
	})
}

func FuzzSessionKeys(f *testing.F) {
	f.Add("", "//pawl/1f/2")
	f.Add("ns/", "ns///pawl/1f")
	f.Fuzz(func(t *testing.T, namespace, key string) {
		lease, below, ok := ParseSessionKey(namespace, key)
		if !ok {
			return
		}
		session := SessionKey(namespace, lease)
		require.True(t, strings.HasPrefix(key, session))
		require.Equal(t, !below, key == session)
		require.True(t, OfSessions(key))
	})
}

func FuzzIdentity(f *testing.F) {
	f.Add("ann", "host", 7, int64(1), "x")
	f.Fuzz(func(t *testing.T, owner, host string, pid int, at int64, other string) {
		id := Identity{strings.ToValidUTF8(owner, "?"), strings.ToValidUTF8(host, "?"), pid, time.Unix(at%(1<<36), 0).UTC()}
		if id.Since.Year() < 1 || id.Since.Year() > 9999 {
			t.Skip() // no clock shows such a time
		}
		lock := NewLabel(id).Lock(id.Since)
		require.NotContains(t, string(lock), "\n")
		for _, value := range [][]byte{lock, InEtcdLayout(NewLabel(id).Lock(id.Since)), SessionValue(id, "n"), id.Value()} {
			require.Equal(t, id, ParseIdentity(value))
		}
		_ = ParseIdentity([]byte(other)) // must not panic, whatever the value
	})
}

func FuzzHandoffs(f *testing.F) {
	f.Add("7f-1", int64(7), LockMark+`"owner":"a b"}`, LockMark+`"owner":"a c"}`)
	f.Add("7f-1", int64(7), someLabel, someLabel+"\n")
	f.Add("", int64(-1), "\n", "")
	f.Fuzz(func(t *testing.T, name string, create int64, value, second string) {
		all := []Successor{successor(name, create, value), successor(name, create, second)}
		known := NewSuccessors(slices.Values(all))
		require.LessOrEqual(t, len(known.list), maxListBytes+len(all)*(maxDigits+len(" 2048  \n")))
		for i, want := range all {
			own, _, _ := strings.Cut(string(want.Value), "\n")
			want.Value = []byte(own)
			first, rest, ok := known.First()
			require.Equal(t, !known.Empty(), ok)
			if !ok {
				return
			}
			require.Equal(t, want, first)
			h, ok := ParseHandoff(first.HandedOff("1-1", 5, rest))
			require.True(t, ok)
			require.Equal(t, []any{"1-1", int64(5)}, []any{string(h.By), h.Create})
			require.Equal(t, i == len(all)-1 || rest.Empty(), h.Successors.Empty())
			known = h.Successors
		}
	})
}

// A forged value never leads to a handoff to a key that could not have been in a list.
func FuzzForgedHandoffs(f *testing.F) {
	f.Add(someLabel + "\ngranted 7f-1 3\n80-1 4 0 " + someLabel + "\n")
	f.Add(someLabel + "\ngranted 7f-1 3\n+80-1 4 1 x\n")
	f.Fuzz(func(t *testing.T, value string) {
		h, ok := ParseHandoff([]byte(value))
		for ok {
			var s Successor
			if s, h.Successors, ok = h.Successors.First(); ok {
				_, isKey := ParseQueueKey(string(s.Name))
				require.True(t, isKey)
				require.True(t, OfLock(s.Value))
				require.Positive(t, s.Create)
			}
		}
	})
}
