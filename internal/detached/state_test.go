package detached

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var some = []State{
	{Lease: 1, Cluster: 2, TTL: time.Second, Key: "k", Create: 3, Mod: 3, Next: 1},
	{
		Lease: 1 << 62, Cluster: 1<<64 - 1, TTL: 300 * time.Second, Key: "n\xff\x00s//pawl/1", Create: 5, Mod: 1 << 60, Next: 9,
		Unsettled: []string{"a/1-2", "\x00"}, Forfeit: []int64{2, 8},
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

func TestAMalformedTextIsRefused(t *testing.T) {
	wrap := func(s string) string { return prefix + base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := `"lease":1,"cluster":2,"ttl":3,"key":"aw==","create":3,"mod":3,"next":1`
	but := func(old, with string) string { return wrap(strings.Replace("{"+good+"}", old, with, 1)) }
	for _, text := range []string{
		"", "x", "pawl1", "pawl2.e30", prefix, prefix + "!", wrap("{}"), wrap("null"), wrap("[]"),
		but(`"lease":1`, `"lease":-1`), but(`"cluster":2`, `"cluster":0`), but(`"ttl":3`, `"ttl":9000000001`),
		but(`"mod":3`, `"mod":2`), but(`"next":1`, `"next":0`), but(`"key":"aw=="`, `"key":""`),
		wrap("{" + good + `,"unsettled":[""]}`), wrap("{" + good + `,"unsettled":"AA=="}`),
		wrap("{" + good + `,"forfeit":[1]}`), but(`"next":1`, `"next":9,"forfeit":[0]`), but(`"next":1`, `"next":9,"forfeit":[3,3]`),
	} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
	_, err := Parse(wrap("{" + good + "}"))
	require.NoError(t, err)
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
