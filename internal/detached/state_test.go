package detached

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

var some = []State{
	{Lease: 1, Cluster: 2, TTL: time.Second, Key: "k", Create: 3, Mod: 3, Next: 1},
	{Lease: 1, Cluster: 2, TTL: time.Second, Key: "k", Create: 3, Mod: 3, Next: 1, Held: -1},
	{
		Lease: 1 << 62, Cluster: 1<<64 - 1, TTL: 300 * time.Second, Key: "n\xff\x00s//pawl/1", Create: 5, Mod: 1 << 60, Next: 9, Held: 3,
		LockDelay: 1500 * time.Millisecond, ToRemove: []string{"a/1-2", "\x00"}, Lost: []int64{2, 8},
		Kept: []Kept{{2, time.Millisecond}, {7, 9_000_000_000 * time.Second}}, At: time.UnixMilli(1_800_000_000_000).UTC(), Claim: "NONCE",
	},
}

func TestATextIsOneWordAndReadsBackEqual(t *testing.T) {
	for _, s := range some {
		text := s.Text()
		assert.NotContains(t, text, " ")
		assert.NotContains(t, text, "\n")
		back, err := Parse(text)
		require.NoError(t, err)
		assert.Equal(t, s, back)
		assert.Equal(t, text, back.Text())
	}
}

// Another version of pawl reads them, so they stay.
func TestTheFieldsOfATextAreThese(t *testing.T) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(some[2].Text(), prefix))
	require.NoError(t, err)
	assert.Equal(t, `{"lease":4611686018427387904,"cluster":18446744073709551615,"ttl":300,"delay":1500,"key":"bv8Acy8vcGF3bC8x",`+
		`"create":5,"mod":1152921504606846976,"next":9,"held":3,"toRemove":["YS8xLTI=","AA=="],"lost":[2,8],`+
		`"kept":[{"n":2,"ms":1},{"n":7,"ms":9000000000000}],"at":1800000000000,"nonce":"NONCE"}`, string(b))
}

func TestAMalformedTextIsRefused(t *testing.T) {
	wrap := func(s string) string { return prefix + base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := `"lease":1,"cluster":2,"ttl":3,"key":"aw==","create":3,"mod":3,"next":1`
	but := func(old, with string) string { return wrap(strings.Replace("{"+good+"}", old, with, 1)) }
	for _, text := range []string{
		"", "x", "pawl1", "pawl2.e30", prefix, prefix + "!", wrap("{}"), wrap("null"), wrap("[]"),
		but(`"lease":1`, `"lease":-1`), but(`"cluster":2`, `"cluster":0`), but(`"ttl":3`, `"ttl":9000000001`), but(`"ttl":3`, `"ttl":3,"delay":-1`), but(`"ttl":3`, `"ttl":3,"delay":9000000000001`),
		but(`"mod":3`, `"mod":2`), but(`"next":1`, `"next":0`), but(`"key":"aw=="`, `"key":""`),
		wrap("{" + good + `,"toRemove":[""]}`), wrap("{" + good + `,"toRemove":"AA=="}`),
		wrap("{" + good + `,"held":-1}`), wrap("{" + good + `,"held":1}`), but(`"next":1`, `"next":9,"held":9`),
		wrap("{" + good + `,"lost":[1]}`), but(`"next":1`, `"next":9,"lost":[0]`), but(`"next":1`, `"next":9,"lost":[3,3]`),
		wrap("{" + good + `,"kept":[{"n":1,"ms":1}],"at":5}`), but(`"next":1`, `"next":9,"at":5`), but(`"next":1`, `"next":9,"kept":[{"n":1,"ms":1}]`),
		but(`"next":1`, `"next":9,"at":5,"kept":[{"n":1,"ms":0}]`), but(`"next":1`, `"next":9,"at":5,"kept":[{"n":1,"ms":9000000000001}]`),
		but(`"next":1`, `"next":9,"at":5,"kept":[{"n":2,"ms":1},{"n":2,"ms":1}]`), but(`"next":1`, `"next":9,"at":-5,"kept":[{"n":1,"ms":1}]`),
	} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
	_, err := Parse(wrap("{" + good + "}"))
	require.NoError(t, err)
}

// The wall clock counts how long keys still have to stay, because the time passes between two
// processes. A clock that was set back adds nothing.
func TestWhatIsKeptStaysForWhatIsLeft(t *testing.T) {
	s := State{At: time.Unix(1000, 0)}
	k := Kept{1, 30 * time.Second}
	for after, want := range map[time.Duration]time.Duration{
		0: 30 * time.Second, 10 * time.Second: 20 * time.Second, 30 * time.Second: 0, time.Hour: 0, -time.Hour: 30 * time.Second,
	} {
		assert.Equal(t, want, s.Stays(k, s.At.Add(after)), "%v later", after)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range some {
		f.Add(s.Text())
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			require.Zero(t, s)
			return
		}
		back, err := Parse(s.Text())
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}
