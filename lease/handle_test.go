package lease

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var someHandles = []Handle{
	{},
	{lease: 1, cluster: 2, ttl: time.Second, key: "k", create: 3, mod: 3, next: 1},
	{lease: 1 << 62, cluster: 1<<64 - 1, ttl: 300 * time.Second, key: "n\xff\x00s//pawl/1", create: 5, mod: 1 << 60, next: 9, unsettled: joinKeys([]string{"a/1-2", "\x00"})},
}

// Rule N6: a Handle is a comparable value, equal after a round trip.
func TestAHandlesTextIsOneWordAndReadsBackEqual(t *testing.T) {
	for _, h := range someHandles {
		text, err := h.MarshalText()
		require.NoError(t, err)
		assert.NotContains(t, string(text), " ")
		assert.NotContains(t, string(text), "\n")
		back := Handle{lease: 99}
		require.NoError(t, back.UnmarshalText(text))
		assert.True(t, h == back, "%v", h)
	}
}

func TestAMalformedHandleIsRefusedAndChangesNothing(t *testing.T) {
	wrap := func(s string) string { return handlePrefix + base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := `"lease":1,"cluster":2,"ttl":3,"key":"aw==","create":3,"mod":3,"next":1`
	for _, text := range []string{
		"x", "pawl1", "pawl2.e30", handlePrefix, handlePrefix + "!", wrap("{}"), wrap("null"), wrap("[]"),
		wrap(strings.Replace("{"+good+"}", `"lease":1`, `"lease":-1`, 1)),
		wrap(strings.Replace("{"+good+"}", `"cluster":2`, `"cluster":0`, 1)),
		wrap(strings.Replace("{"+good+"}", `"ttl":3`, `"ttl":9000000001`, 1)),
		wrap(strings.Replace("{"+good+"}", `"mod":3`, `"mod":2`, 1)),
		wrap(strings.Replace("{"+good+"}", `"next":1`, `"next":0`, 1)),
		wrap("{" + good + `,"unsettled":"/w=="}`),
		wrap("{" + good + `,"unsettled":"AA=="}`),
	} {
		h := Handle{lease: 99}
		require.Error(t, h.UnmarshalText([]byte(text)), text)
		assert.Equal(t, Handle{lease: 99}, h)
	}
	var h Handle
	require.NoError(t, h.UnmarshalText([]byte(wrap("{"+good+"}"))))
}

func TestHandleNamesItsLeaseForLogs(t *testing.T) {
	assert.Equal(t, "no session", Handle{}.String())
	assert.Equal(t, "session of lease ff", Handle{lease: 255}.String())
}

func FuzzUnmarshalHandle(f *testing.F) {
	for _, h := range someHandles {
		text, _ := h.MarshalText()
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var h Handle
		if h.UnmarshalText(text) != nil {
			require.Equal(t, Handle{}, h)
			return
		}
		again, err := h.MarshalText()
		require.NoError(t, err)
		var back Handle
		require.NoError(t, back.UnmarshalText(again))
		require.True(t, h == back)
		_, err = splitKeys(h.unsettled)
		require.NoError(t, err)
	})
}

func FuzzKeysJoinAndSplit(f *testing.F) {
	f.Add("a", "", "b\x00")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		keys := slices.DeleteFunc([]string{a, b, c}, func(k string) bool { return k == "" })
		got, err := splitKeys(joinKeys(keys))
		require.NoError(t, err)
		require.True(t, slices.Equal(keys, got))
		if got, err := splitKeys(a); err == nil && joinKeys(got) != a {
			require.LessOrEqual(t, len(joinKeys(got)), len(a), "only a longer way to write a length")
		}
	})
}
