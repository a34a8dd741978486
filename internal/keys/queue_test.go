package keys

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// awkward are names that have caused faults, alone and as parts of others.
var awkward = []string{"a", "b", "/", "a/b", "a/", "/a", "//", "a\x00", "\x00", "%", "%2F", "%25", "a%2Fb", "ü", "世界", "\xff", "\xff\xff", "//pawl/", "-1", " "}

func name(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(awkward[r.IntN(len(awkward))])
	}
	return b.String()
}

// Hazard A17: no key of a name lies in the range of another name, or below SessionRoot, and every key
// parses as its name's.
// rule: A1
func TestQueuesOfDifferentNamesAreDisjoint(t *testing.T) {
	r := rand.New(rand.NewPCG(testscale.Seed(t), 0))
	names := append([]string{strings.Repeat("x", 1024), strings.Repeat("/", 1024), strings.Repeat("x", 1023)}, awkward...)
	for range 300 {
		names = append(names, name(r))
	}
	for _, namespace := range []string{"", "ns", "ns/", "//"} {
		session := SessionKey(namespace, 7)
		queues := map[string]string{} // name by prefix
		for _, n := range names {
			q, err := NewQueue(namespace, n, false)
			require.NoError(t, err, "%q", n)
			if other, ok := queues[q.Prefix]; ok {
				assert.Equal(t, other, n, "one prefix %q for two names", q.Prefix)
			}
			queues[q.Prefix] = n
			assert.False(t, strings.HasPrefix(session, q.Prefix), "%q holds the sessions' keys", q.Prefix)
			key := QueueKey{Lease: 0x1f, N: 9}.In(q.Prefix)
			got, ok := q.Parse(key)
			assert.Equal(t, []any{QueueKey{Lease: 0x1f, N: 9}, true}, []any{got, ok}, "%q", key)
			back, ok := ParseQueue(namespace, q.Prefix)
			assert.Equal(t, []any{q, true}, []any{back, ok}, "%q", key)
		}
		for p, n := range queues {
			for o, m := range queues {
				if p != o {
					assert.False(t, strings.HasPrefix(o, p), "%q lies in %q: names %q and %q", o, p, m, n)
				}
			}
		}
	}
}

// rule: A1
func TestNamesOutOfBoundsAreRefused(t *testing.T) {
	for _, etcd := range []bool{false, true} {
		_, err := NewQueue("", "", etcd)
		assert.ErrorContains(t, err, "empty")
		_, err = NewQueue("", strings.Repeat("x", 1025), etcd)
		assert.ErrorContains(t, err, "1025")
	}
}

// In etcd's layout a name is verbatim, but never below SessionRoot.
func TestEtcdLayoutTakesTheNameVerbatim(t *testing.T) {
	for n, prefix := range map[string]string{"a": "ns/a/", "a/b": "ns/a/b/", "a/": "ns/a//"} {
		q, err := NewQueue("ns/", n, true)
		require.NoError(t, err, "%q", n)
		assert.Equal(t, prefix, q.Prefix)
	}
	for _, n := range []string{"/", "//pawl", "//pawl/7", "//pawl/7/1"} {
		_, err := NewQueue("", n, true)
		assert.ErrorContains(t, err, "sessions' own keys", "%q", n)
	}
	for namespace, names := range map[string][]string{"": awkward, "ns": awkward, "ns/": awkward} {
		for _, n := range names {
			q, err := NewQueue(namespace, n, true)
			if err == nil {
				session := SessionKey(namespace, 7)
				assert.False(t, strings.HasPrefix(session, q.Prefix) || strings.HasPrefix(q.Prefix, namespace+sessionRoot), fmt.Sprintf("%q in %q", n, namespace))
			}
		}
	}
}

func TestParseQueueReadsEtcdsLayoutWhereNoEscapedNameIsMeant(t *testing.T) {
	for _, name := range []string{"a/b", "a/", "a//b", "/a", "%2F/x", "/a%2fb", "//"} {
		q, err := NewQueue("ns/", name, true)
		require.NoError(t, err)
		got, ok := ParseQueue("ns/", q.Prefix)
		assert.Equal(t, []any{q, true}, []any{got, ok}, "%q", name)
	}
	for _, name := range []string{"a", "a/b", "/", "a%", "pawl"} {
		q, err := NewSemaphore("ns/", name)
		require.NoError(t, err)
		got, ok := ParseQueue("ns/", q.Prefix)
		assert.Equal(t, []any{q, true}, []any{got, ok}, "%q", name)
	}
	for _, prefix := range []string{"", "ns", "ns/", "ns//", "ns/a", "other/a/", "ns///pawl/", "ns///pawl/1f/", "ns/x//pawl/1f/", "ns///pawl/sem/", "ns///pawl/sem//", "ns///pawl/sem/a/b/"} {
		_, ok := ParseQueue("ns/", prefix)
		assert.False(t, ok, "%q", prefix)
	}
}

// SM4: the resource of a slot is not a valid name of a lock, is at most as long as a name may
// be, and is not another slot's.
// rule: SM4
func TestNoNameIsASlotsResource(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"a", "1/a", "/a", "0/1", "//pawl/slot", strings.Repeat("x", maxSemaphore)} {
		for _, slot := range []int{0, 1, 10, MaxLimit - 1} {
			r := SlotResource(name, slot)
			assert.False(t, seen[r], r)
			seen[r] = true
			assert.LessOrEqual(t, len(r), MaxName)
			for _, etcdLayout := range []bool{false, true} {
				assert.Error(t, CheckName(r, etcdLayout))
			}
		}
		assert.NoError(t, CheckName(name, false))
	}
}
