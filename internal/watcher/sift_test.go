package watcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// chance is the source of a random test's choices: a seed, or a fuzzer's bytes.
type chance interface{ IntN(n int) int }

type bytesChance struct{ b []byte }

func (c *bytesChance) IntN(n int) int {
	if len(c.b) == 0 {
		return 0
	}
	v := int(c.b[0]) % n
	c.b = c.b[1:]
	return v
}

// history is all events by revision, some with several keys, some with keys outside the span.
func history(c chance) [][]*mvccpb.Event {
	var h [][]*mvccpb.Event
	rev := int64(1)
	for range 1 + c.IntN(30) {
		rev += int64(1 + c.IntN(3))
		var evs []*mvccpb.Event
		for k := range 1 + c.IntN(4)*c.IntN(4)*3 {
			key := fmt.Sprintf("%c%02d", "abc"[c.IntN(3)], k)
			if c.IntN(3) == 0 {
				evs = append(evs, del(key, rev))
			} else {
				evs = append(evs, put(key, rev))
			}
		}
		h = append(h, evs)
	}
	return h
}

// naive is another implementation of sift, which uses the whole history.
func naive(sp span, deletions bool, from int64, h [][]*mvccpb.Event) []Event {
	out := []Event{}
	for _, evs := range h {
		evs = slices.Clone(evs)
		slices.SortStableFunc(evs, func(a, b *mvccpb.Event) int { return strings.Compare(string(a.Kv.Key), string(b.Kv.Key)) })
		for _, e := range evs {
			if e.Kv.ModRevision >= from && sp.covers(e.Kv.Key) && (!deletions || e.Type == etcdapi.EventDelete) {
				out = append(out, event(sp, e))
			}
		}
	}
	return out
}

// replay sends a history as a bad server would, through sift, and returns what was delivered.
func replay(t testing.TB, c chance, sp span, deletions bool, from int64, h [][]*mvccpb.Event) []Event {
	got := []Event{}
	next := from
	answer := func(evs []*mvccpb.Event) {
		out := sift(sp, deletions, next, slices.Clone(evs))
		if len(out) == 0 {
			return
		}
		require.GreaterOrEqual(t, out[0].ModRevision, next)
		require.True(t, len(got) == 0 || got[len(got)-1].ModRevision < out[0].ModRevision, "a revision is split over two updates")
		got = append(got, out...)
		next = out[len(out)-1].ModRevision + 1
	}
	for at := 0; at < len(h); {
		n := 1 + c.IntN(min(5, len(h)-at))
		begin := max(0, at-c.IntN(4)*c.IntN(4)) // repeats some
		evs := slices.Concat(h[begin : at+n]...)
		switch c.IntN(3) {
		case 0: // revisions out of order, and everything twice
			slices.Reverse(h[begin : at+n])
			evs = slices.Concat(h[begin : at+n]...)
			slices.Reverse(h[begin : at+n])
			answer(append(evs, evs...))
		case 1: // something old first
			answer(slices.Concat(h[:begin]...))
			answer(evs)
		default:
			answer(evs)
		}
		at += n
	}
	return got
}

func checkSift(t testing.TB, c chance) {
	h := history(c)
	sp := []span{newSpan("b", "c"), newSpan("a00", ""), newSpan("a", everything), newSpan("b01", "b03")}[c.IntN(4)]
	deletions := sp.end == "" && c.IntN(2) == 0
	from := int64(1 + c.IntN(20))
	require.Equal(t, naive(sp, deletions, from, h), replay(t, c, sp, deletions, from, h))
}

func TestWhateverAServerRepeatsEachEventIsDeliveredOnce(t *testing.T) {
	var seed uint64
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for seed = range testscale.Of[uint64](1000, 20_000) {
		checkSift(t, rand.New(rand.NewPCG(seed, 0)))
	}
}

func FuzzSift(f *testing.F) {
	f.Add([]byte("a history, and how it is sent"))
	f.Fuzz(func(t *testing.T, b []byte) { checkSift(t, &bytesChance{b}) })
}

func TestEventsWithoutAKeyAreDropped(t *testing.T) {
	out := sift(span{key: "a"}, false, 1, []*mvccpb.Event{nil, {}, put("a", 2)})
	assert.Equal(t, []Event{event(span{key: "a"}, put("a", 2))}, out)
	assert.Empty(t, sift(span{key: "a"}, false, 1, nil))
}

func TestALongRevisionIsSiftedInGoodTime(t *testing.T) {
	var evs []*mvccpb.Event
	for i := range 100_000 {
		evs = append(evs, del(fmt.Sprintf("k%06d", i), 7))
	}
	assert.Len(t, sift(newSpan("k", "l"), false, 1, append(evs, evs...)), 100_000)
}

func TestASpanCoversItsKeys(t *testing.T) {
	for _, c := range []struct {
		key, end string
		in, out  []string
	}{
		{"a", "", []string{"a"}, []string{"", "a\x00", "b"}},
		{"a", "c", []string{"a", "a\x00", "b", "bzz"}, []string{"A", "c", "d"}},
		{"b", everything, []string{"b", "z", "\xff\xff"}, []string{"a", ""}},
		{"", everything, []string{"\x00", "a"}, nil},
	} {
		s := newSpan(c.key, c.end)
		require.NoError(t, s.check())
		for _, k := range c.in {
			assert.True(t, s.covers([]byte(k)), "%+v %q", c, k)
		}
		for _, k := range c.out {
			assert.False(t, s.covers([]byte(k)), "%+v %q", c, k)
		}
	}
	assert.ErrorIs(t, newSpan("a", "a").check(), errEmptySpan)
	assert.ErrorIs(t, newSpan("b", "a").check(), errEmptySpan)
	assert.NoError(t, newSpan(string(make([]byte, maxSpan)), "").check())
	assert.ErrorIs(t, newSpan(string(make([]byte, maxSpan)), "\xff").check(), errLongSpan)
}
