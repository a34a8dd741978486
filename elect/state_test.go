package elect

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// prefixModel is a deliberately dumb model of a prefix: every key, sorted at each read.
type prefixModel struct {
	rev  int64
	keys map[string]watcher.Event
}

func (c *prefixModel) first() candidate {
	var first candidate
	for k, ev := range c.keys {
		if at := (candidate{k, ev.CreateRevision}); first.create == 0 || before(at, first) < 0 {
			first = at
		}
	}
	return first
}

// step makes one revision of up to three changes of different keys.
func (c *prefixModel) step(rnd *rand.Rand) (events []watcher.Event) {
	c.rev += 1 + rnd.Int64N(3)
	for _, i := range rnd.Perm(8)[:1+rnd.IntN(3)] {
		key := fmt.Sprintf("k%d", i)
		old, there := c.keys[key]
		switch {
		case there && rnd.IntN(2) == 0:
			delete(c.keys, key)
			events = append(events, watcher.Event{Key: key, Deleted: true, ModRevision: c.rev})
			continue
		case !there:
			old = watcher.Event{Key: key, CreateRevision: c.rev}
		}
		old.ModRevision, old.Value = c.rev, fmt.Appendf(nil, "%s@%d", key, c.rev)
		c.keys[key] = old
		events = append(events, old)
	}
	return events
}

func TestElectionStateAgreesWithAModelThatSortsEveryTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testscale.Seed(t), 1))
	for range 100 {
		c := &prefixModel{rev: 1, keys: map[string]watcher.Event{}}
		for range rnd.IntN(10) {
			c.step(rnd)
		}
		var all []candidate
		for k, ev := range c.keys {
			all = append(all, candidate{k, ev.CreateRevision})
		}
		s := newElectionState(c.rev, all)
		for range 200 {
			var events []watcher.Event
			for range 1 + rnd.IntN(3) {
				events = append(events, c.step(rnd)...)
			}
			s.apply(events, c.rev)
			require.Equal(t, c.first(), s.first())
			require.Equal(t, c.rev, s.rev)
			if p, known := s.leader(); known && p.create != 0 {
				require.Equal(t, c.keys[p.key].ModRevision, p.mod)
				require.Equal(t, string(c.keys[p.key].Value), string(p.value))
			}
		}
	}
}

func TestElectionStateLooksWhoIsFirstAfterWholeRevisions(t *testing.T) {
	s := newElectionState(5, []candidate{{"a", 3}})
	s.apply([]watcher.Event{
		{Key: "a", Deleted: true, ModRevision: 6},
		{Key: "c", CreateRevision: 6, ModRevision: 6, Value: []byte("c")},
		{Key: "b", CreateRevision: 6, ModRevision: 6, Value: []byte("b"), Lease: 7},
	}, 6)
	p, known := s.leader()
	assert.True(t, known)
	assert.Equal(t, proclaimed{candidate{"b", 6}, 6, 7, []byte("b")}, p)
}

func TestElectionStateDropsWhatItKnows(t *testing.T) {
	s := newElectionState(5, []candidate{{"a", 3}})
	s.note(proclaimed{candidate{"a", 3}, 9, 0, []byte("read later")})
	s.apply([]watcher.Event{{Key: "a", Deleted: true, ModRevision: 4}}, 4)
	s.apply([]watcher.Event{{Key: "a", CreateRevision: 3, ModRevision: 7, Value: []byte("old")}}, 7)
	p, known := s.leader()
	assert.True(t, known)
	assert.Equal(t, "read later", string(p.value))
	assert.EqualValues(t, 9, p.mod)
}

func TestElectionStateDropsEventsFromBeforeItWasRead(t *testing.T) {
	s := newElectionState(5, []candidate{{"a", 3}})
	s.apply([]watcher.Event{{Key: "a", Deleted: true, ModRevision: 2}}, 4)
	assert.EqualValues(t, 5, s.rev)
	s.apply([]watcher.Event{{Key: "a", Deleted: true, ModRevision: 2}, {Key: "b", CreateRevision: 7, ModRevision: 7}}, 7)
	assert.Equal(t, candidate{"a", 3}, s.first())
	assert.EqualValues(t, 7, s.rev)
}

func TestElectionStateDistinguishesAKeyThatCameAgainFromTheOneThatWent(t *testing.T) {
	s := newElectionState(5, []candidate{{"a", 3}, {"b", 4}})
	s.apply([]watcher.Event{{Key: "a", Deleted: true, ModRevision: 6}, {Key: "a", CreateRevision: 7, ModRevision: 7}}, 7)
	assert.Equal(t, candidate{"b", 4}, s.first())
	s.apply([]watcher.Event{{Key: "b", Deleted: true, ModRevision: 8}}, 8)
	assert.Equal(t, candidate{"a", 7}, s.first())
}

func TestElectionStateIsBoundedByTheCandidatesThatAreThere(t *testing.T) {
	s := newElectionState(1, []candidate{{"stays", 1}})
	for rev := int64(2); rev < 20_000; rev += 2 {
		key := fmt.Sprint(rev)
		s.apply([]watcher.Event{{Key: key, CreateRevision: rev, ModRevision: rev}}, rev)
		s.apply([]watcher.Event{{Key: key, Deleted: true, ModRevision: rev + 1}}, rev+1)
	}
	assert.Equal(t, candidate{"stays", 1}, s.first())
	assert.LessOrEqual(t, len(s.queue), 128)
	assert.Len(t, s.live, 1)
}

func TestElectionStateTakesAbout100BytesACandidate(t *testing.T) {
	const n = 100_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := newElectionState(1, nil)
	for i := range n {
		s.apply([]watcher.Event{{Key: fmt.Sprintf("election/%016x-1", i), CreateRevision: int64(i + 2), ModRevision: int64(i + 2), Value: make([]byte, 1000)}}, int64(i+2))
	}
	took := (float64(heap()) - float64(before)) / n
	t.Logf("%.0f B", took)
	assert.Less(t, took, 200.0)
	runtime.KeepAlive(s)
}
