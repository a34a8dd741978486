package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
)

const (
	label = `{"pawl":"lock","owner":"ann","host":"h1","pid":7,"since":"2026-01-02T03:04:05Z"}`
	set   = `{"pawl":"multi","names":["a","b"],"owner":"ann","host":"h1","pid":7,"since":"2026-01-02T03:04:05Z"}`
	etcds = `{"layout":"etcd","pawl":"lock","owner":"eve","host":"h2","pid":8,"since":"2026-01-02T03:04:05Z"}`
)

// began is when the histories of these tests begin; a revision comes each second.
var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A history is what the cluster does, a revision an element: steps separated by
// ";", each "put KEY LEASE VALUE", or "del KEY".
type history struct {
	t     *testing.T
	s     *state
	rev   int64
	known map[string]int64 // create revisions
	// living are the sessions whose key exists, by lease in hex. broken are the keys with a mark of
	// Evict. If unknown is set, no query is answered.
	living  map[string]string
	broken  map[string]string
	unknown bool
}

func begin(t *testing.T, namespace string) *history {
	return &history{t: t, s: newState(namespace), known: map[string]int64{}, living: map[string]string{}, broken: map[string]string{}}
}

func (h *history) events(steps string) (out []watcher.Event) {
	h.rev++
	for step := range strings.SplitSeq(steps, "; ") {
		w := append(strings.SplitN(step, " ", 4), "", "")
		ev := watcher.Event{Key: w[1], ModRevision: h.rev}
		if w[0] == "del" {
			ev.Deleted = true
			delete(h.known, ev.Key)
		} else {
			if h.known[ev.Key] == 0 {
				h.known[ev.Key] = h.rev
			}
			ev.CreateRevision = h.known[ev.Key]
			_, err := fmt.Sscanf(w[2], "%x", &ev.Lease)
			require.NoError(h.t, err, step)
			ev.Value = []byte(strings.NewReplacer("LABEL", label, "SET", set, "ETCD", etcds).Replace(w[3]))
		}
		out = append(out, ev)
	}
	return out
}

func (h *history) answers(events []watcher.Event) map[query]answer {
	out := map[query]answer{}
	for _, q := range queriesOf(events) {
		value, there := h.living[fmt.Sprintf("%x", q.lease)]
		a := answer{known: !h.unknown, there: there, value: []byte(value)}
		for key, by := range h.broken {
			if id, n := sequenceOf(key); id == q.lease && n == q.n && q.ended {
				a.broken = []byte(by)
			}
		}
		out[q] = a
	}
	return out
}

// does applies steps and returns what happened, one line for each event.
func (h *history) does(steps string) (said []string) {
	events := h.events(steps)
	now := began.Add(time.Duration(h.rev) * time.Second)
	for _, e := range h.s.apply(revision{events, now, h.answers(events)}) {
		line := e.String()
		if e.Waited >= 0 {
			line += " waited=" + e.Waited.String()
		}
		if e.Held >= 0 {
			line += " held=" + e.Held.String()
		}
		if e.By != "" {
			line += " by=" + e.By
		}
		said = append(said, line)
	}
	return said
}

func TestEachEndIsClassifiedByItsRevision(t *testing.T) {
	for name, c := range map[string]struct {
		steps   []string
		living  string
		broken  string
		unknown bool
		want    string // the last step's
	}{
		"a lock that nobody waits for is acquired at once": {
			steps: []string{"put a/1-1 1 LABEL"},
			want:  "1 a acquired token=1 waited=0s",
		},
		"who comes second is enqueued": {
			steps: []string{"put a/1-1 1 LABEL", "put a/2-1 2 LABEL"},
			want:  "2 a enqueued token=2",
		},
		"a release with a handoff is reported with the successor's wait": {
			steps: []string{"put a/1-1 1 LABEL", "put a/2-1 2 LABEL", "del a/1-1; put a/2-1 2 LABEL\ngranted 1-1 1\n"},
			want:  "3 a released token=1 (handed on) held=2s|3 a acquired token=2 waited=1s",
		},
		"a key that went while its session lives was released": {
			steps: []string{"put a/1-1 1 LABEL", "del a/1-1"}, living: "1",
			want: "2 a released token=1 (key deleted) held=1s",
		},
		"a key that went with its session's was lost": {
			steps: []string{"put a/1-1 1 LABEL", "put a/2-1 2 LABEL", "del a/1-1"},
			want:  "3 a lost token=1 (lease ended) held=2s|3 a acquired token=2 waited=1s",
		},
		"a key with a mark was broken": {
			steps: []string{"put a/1-1 1 LABEL", "del a/1-1"}, living: "1", broken: "a/1-1",
			want: "2 a lost token=1 (broken) held=1s by=bob",
		},
		"where the session may not be read nothing is guessed": {
			steps: []string{"put a/1-1 1 LABEL", "del a/1-1"}, unknown: true,
			want: "2 a ended token=1 (cause unknown) held=1s",
		},
		"a waiter that is gone gave up": {
			steps: []string{"put a/1-1 1 LABEL", "put a/2-1 2 LABEL", "del a/2-1"}, living: "2",
			want: "3 a gave up token=2 (key deleted) waited=1s",
		},
		"a waiter whose lease ended gave up too": {
			steps: []string{"put a/1-1 1 LABEL", "put a/2-1 2 LABEL", "del a/2-1"},
			want:  "3 a gave up token=2 (lease ended) waited=1s",
		},
		"a holder and the waiter behind it go at once": {
			steps: []string{"put a/1-1 1 LABEL", "put a/1-2 1 LABEL", "put a/2-1 2 LABEL", "del a/1-2; del a/1-1"},
			want:  "4 a gave up token=2 (lease ended) waited=2s|4 a lost token=1 (lease ended) held=3s|4 a acquired token=3 waited=1s",
		},
		"a lock that somebody writes to is lost": {
			steps: []string{"put a/1-1 1 LABEL", "put a/1-1 1 other"},
			want:  "2 a lost token=1 (overwritten) held=1s",
		},
		"and its end is reported once": {
			steps: []string{"put a/1-1 1 LABEL", "put a/2-1 2 LABEL", "put a/1-1 1 other", "del a/1-1"}, living: "1",
			want: "4 a acquired token=2 waited=2s",
		},
		"a lock that is taken off its lease is lost": {
			steps: []string{"put a/1-1 1 LABEL", "put a/1-1 0 LABEL\ngranted 9-1 1\n"},
			want:  "2 a lost token=1 (overwritten) held=1s",
		},
		"a candidate that leads proclaims": {
			steps: []string{"put a/1-1 1 v1", "put a/1-1 1 v2"},
			want:  "2 a proclaimed token=1",
		},
		"one that waits does not": {
			steps: []string{"put a/1-1 1 v1", "put a/2-1 2 w1", "put a/2-1 2 w2"},
		},
		"clientv3's keys do not record why they go": {
			steps: []string{"put a/1f 1f ", "put a/2f 2f ", "del a/1f"},
			want:  "3 a ended token=1 (cause unknown) held=2s|3 a acquired token=2 waited=1s",
		},
		"unless another of their lease goes too": {
			steps: []string{"put a/1f 1f ", "put b/1f 1f ", "del a/1f; del b/1f"},
			want:  "3 a lost token=1 (lease ended) held=2s|3 b lost token=2 (lease ended) held=1s",
		},
		"pawl's keys in etcd's layout do": {
			steps: []string{"put a/b/1f-1 1f ETCD", "del a/b/1f-1"}, living: "1f",
			want: "2 a/b released token=1 (key deleted) held=1s",
		},
		"a foreign key blocks and is not reported": {
			steps: []string{"put a/x 0 ", "put a/1-1 1 LABEL"},
			want:  "2 a enqueued token=2",
		},
		"until it is gone": {
			steps: []string{"put a/x 0 ", "put a/1-1 1 LABEL", "del a/x"},
			want:  "3 a acquired token=2 waited=1s",
		},
		"a holder of a name below blocks the name above": {
			steps: []string{"put a/b/1f 1f ", "put a/2f 2f "},
			want:  "2 a enqueued token=2",
		},
		"and its end frees it": {
			steps: []string{"put a/b/1f 1f ", "put a/2f 2f ", "del a/b/1f"},
			want:  "3 a/b ended token=1 (cause unknown) held=2s|3 a acquired token=2 waited=1s",
		},
		"a key that comes again is another": {
			steps: []string{"put a/1f 1f ", "del a/1f", "put a/1f 1f "},
			want:  "3 a acquired token=3 waited=0s",
		},
		"the sessions' own keys are no locks": {
			steps: []string{"put //pawl/1f 1f x; put app///pawl/1f 1f x; put //pawl/1f/1 1f "},
		},
		"a name with a slash": {
			steps: []string{"put /a%2Fb/1-1 1 LABEL"},
			want:  "1 a/b acquired token=1 waited=0s",
		},
		"readers hold together": {
			steps: []string{"put a/+1-1 1 LABEL", "put a/+2-1 2 LABEL"},
			want:  "2 a acquired token=2 waited=0s",
		},
		"a writer waits for all of them": {
			steps: []string{"put a/+1-1 1 LABEL", "put a/+2-1 2 LABEL", "put a/3-1 3 LABEL", "del a/+1-1", "del a/+2-1"}, living: "2",
			want: "5 a released token=2 (key deleted) held=3s|5 a acquired token=3 waited=2s",
		},
		"and the first reader's end frees nothing": {
			steps: []string{"put a/+1-1 1 LABEL", "put a/+2-1 2 LABEL", "put a/3-1 3 LABEL", "del a/+1-1"}, living: "1",
			want: "4 a released token=1 (key deleted) held=3s",
		},
		"readers behind a writer queue": {
			steps: []string{"put a/+1-1 1 LABEL", "put a/2-1 2 LABEL", "put a/+3-1 3 LABEL"},
			want:  "3 a enqueued token=3",
		},
		"and go in together when it leaves": {
			steps: []string{"put a/1-1 1 LABEL", "put a/+2-1 2 LABEL", "put a/+3-1 3 LABEL", "put a/4-1 4 LABEL", "put a/+5-1 5 LABEL", "del a/1-1"}, living: "1",
			want: "6 a released token=1 (key deleted) held=5s|6 a acquired token=2 waited=4s|6 a acquired token=3 waited=3s",
		},
		"a reader that waited gave up, and one that held was lost": {
			steps: []string{"put a/+1-1 1 LABEL", "put a/2-1 2 LABEL", "put a/+3-1 3 LABEL", "del a/+3-1; del a/+1-1"},
			want:  "4 a gave up token=3 (lease ended) waited=1s|4 a lost token=1 (lease ended) held=3s|4 a acquired token=2 waited=2s",
		},
		"a reader behind a foreign key waits": {
			steps: []string{"put a/x 0 ", "put a/+1-1 1 LABEL"},
			want:  "2 a enqueued token=2",
		},
		"a set's release is one": {
			steps: []string{"put a/1-1 1 SET; put b/1-1 1 SET", "del a/1-1; del b/1-1"}, living: "1",
			want: "2 a released token=1 (key deleted) held=1s|2 b released token=1 (key deleted) held=1s",
		},
		"two keys of a lease that go together went together: why is not known": {
			steps: []string{"put a/1-1 1 LABEL", "put b/1-2 1 LABEL", "del a/1-1; del b/1-2"}, unknown: true,
			want: "3 a ended token=1 (cause unknown) held=2s|3 b ended token=2 (cause unknown) held=1s",
		},
		"the first at a turnstile with a free slot does not queue": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL"},
		},
		"it takes a slot, and has not given up": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "put //pawl/sem/a/s0.2.1-1 1 LABEL; del //pawl/sem/a/q1-1"}, living: "1",
			want: "2 a acquired token=2 waited=0s",
		},
		"in whatever order the two come": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "del //pawl/sem/a/q1-1; put //pawl/sem/a/s0.2.1-1 1 LABEL"}, living: "1",
			want: "2 a acquired token=2 waited=0s",
		},
		"where all slots are held the first queues": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "put //pawl/sem/a/s0.1.1-1 1 LABEL; del //pawl/sem/a/q1-1", "put //pawl/sem/a/q2-1 2 LABEL"},
			want:  "3 a enqueued token=3",
		},
		"and the second does wherever there is a first": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "put //pawl/sem/a/q2-1 2 LABEL"},
			want:  "2 a enqueued token=2",
		},
		"its wait is counted from the turnstile": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "put //pawl/sem/a/s0.1.1-1 1 LABEL; del //pawl/sem/a/q1-1", "put //pawl/sem/a/q2-1 2 LABEL", "del //pawl/sem/a/s0.1.1-1", "put //pawl/sem/a/s0.1.2-1 2 LABEL; del //pawl/sem/a/q2-1"},
			want:  "5 a acquired token=5 waited=2s",
		},
		"a slot that is given back is released, first in the queue or not": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "put //pawl/sem/a/s0.2.1-1 1 LABEL; del //pawl/sem/a/q1-1", "put //pawl/sem/a/q2-1 2 LABEL", "put //pawl/sem/a/s1.2.2-1 2 LABEL; del //pawl/sem/a/q2-1", "del //pawl/sem/a/s1.2.2-1"}, living: "2",
			want: "5 a released token=4 (key deleted) held=1s",
		},
		"one that waits at the turnstile gives up": {
			steps: []string{"put //pawl/sem/a/q1-1 1 LABEL", "put //pawl/sem/a/s0.1.1-1 1 LABEL; del //pawl/sem/a/q1-1", "put //pawl/sem/a/q2-1 2 LABEL", "del //pawl/sem/a/q2-1"}, living: "2",
			want: "4 a gave up token=3 (key deleted) waited=1s",
		},
		"a key without a folder is nobody's": {
			steps: []string{"put 1-1 1 LABEL; put /1-1 1 LABEL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(t, "")
			h.unknown = c.unknown
			if c.living != "" {
				h.living[c.living] = "{}"
			}
			if c.broken != "" {
				h.broken[c.broken] = `{"owner":"bob"}`
			}
			var said []string
			for _, step := range c.steps {
				said = h.does(step)
			}
			assert.Equal(t, c.want, strings.Join(said, "|"))
		})
	}
}

func TestACandidateIsIdentifiedByItsSession(t *testing.T) {
	h := begin(t, "ns/")
	h.living["1f"] = `{"owner":"ann","host":"h1","pid":7,"since":"2026-01-02T03:04:05Z"}`
	h.does("put ns/chief/1f-1 1f " + strings.Repeat("v", 3000))
	queues := h.s.queues("", "")
	require.Len(t, queues, 1)
	assert.Equal(t, NamedQueue{Name: "chief", Prefix: "ns/chief/", Election: true, Queue: []Position{{
		Key: "ns/chief/1f-1", Token: 1, Modified: 1, Lease: 0x1f, Form: Pawl, Election: true, Mode: ModeExclusive, Holds: true,
		Owner: "ann", Host: "h1", PID: 7, Since: began, Value: []byte(strings.Repeat("v", 1024)), Size: 3000,
		Observed: began.Add(time.Second), HeldSince: began.Add(time.Second),
	}}}, queues[0])
}

func TestAReadAfterAGapReportsTheDifferencesWithoutCauses(t *testing.T) {
	h := begin(t, "")
	h.does("put a/1-1 1 LABEL; put b/3-1 3 LABEL; put c/4-1 4 LABEL")
	h.does("put a/2-1 2 LABEL")
	found := newState("")
	found.rev = 9
	found.add(newPosition("a/2-1", []byte(label), 2, 2, 2))
	found.add(newPosition("b/3-1", []byte(label), 1, 1, 3))
	found.add(newPosition("c/4-1", []byte(label), 8, 8, 4)) // its name again, and another
	found.add(newPosition("d/5-1", []byte(label), 7, 7, 5))
	var said []string
	for _, e := range h.s.replace(found, began.Add(9*time.Second)) {
		assert.True(t, e.Unsure)
		said = append(said, e.String())
	}
	assert.Equal(t, []string{
		"9 a ended token=1 (cause unknown)", "9 c ended token=1 (cause unknown)",
		"9 a acquired token=2", "9 c acquired token=8", "9 d acquired token=7",
	}, said)
	assert.Equal(t, int64(9), h.s.rev)

	// Later events are reported as usual.
	h.rev = 9
	h.known["b/3-1"] = 1
	assert.Equal(t, []string{"10 b lost token=1 (lease ended) held=9s"}, h.does("del b/3-1"))
}

// modes is a queue in short: who holds it, and who waits.
func modes(q NamedQueue) (holds, waits []string) {
	for _, p := range q.Queue {
		_, name := keys.Split(p.Key)
		if p.Holds {
			holds = append(holds, name)
		} else {
			waits = append(waits, name)
		}
	}
	return holds, waits
}

func TestAQueueSaysWhoHoldsIt(t *testing.T) {
	for _, c := range []struct {
		steps        string
		holds, waits []string
		kind         string
		limit        int
	}{
		{"put a/1-1 1 LABEL", []string{"1-1"}, nil, KindLock, 0},
		{"put a/+1-1 1 LABEL; put a/+2-1 2 LABEL", []string{"+1-1", "+2-1"}, nil, KindLock, 0},
		{"put a/+1-1 1 LABEL|put a/2-1 2 LABEL|put a/+3-1 3 LABEL", []string{"+1-1"}, []string{"2-1", "+3-1"}, KindLock, 0},
		{"put a/2-1 2 LABEL|put a/+3-1 3 LABEL", []string{"2-1"}, []string{"+3-1"}, KindLock, 0},
		{"put a/x 0 |put a/+3-1 3 LABEL", []string{"x"}, []string{"+3-1"}, KindLock, 0},
		{"put //pawl/sem/a/q1-1 1 LABEL", nil, []string{"q1-1"}, KindSemaphore, 0},
		{"put //pawl/sem/a/q1-1 1 LABEL|put //pawl/sem/a/s1.3.2-1 2 LABEL|put //pawl/sem/a/s0.2.3-1 2 LABEL", []string{"s0.2.3-1", "s1.3.2-1"}, []string{"q1-1"}, KindSemaphore, 2},
		{"put a/1-1 1 v", []string{"1-1"}, nil, KindElection, 0},
	} {
		h := begin(t, "")
		for step := range strings.SplitSeq(c.steps, "|") {
			h.does(step)
		}
		q := h.s.queues("", "a/")[0]
		holds, waits := modes(q)
		assert.Equal(t, c.holds, holds, c.steps)
		assert.Equal(t, c.waits, waits, c.steps)
		assert.Len(t, q.Holders(), len(holds))
		assert.Len(t, q.Waiters(), len(waits))
		assert.Equal(t, c.kind, q.Kind(), c.steps)
		assert.Equal(t, c.limit, q.Limit(), c.steps)
		p, ok := q.Holder()
		assert.Equal(t, len(holds) > 0, ok)
		if ok {
			assert.Equal(t, q.Prefix+holds[0], p.Key)
		}
	}
}

func TestASetSaysItsNames(t *testing.T) {
	h := begin(t, "")
	h.does("put a/1-1 1 SET; put b/+1-1 1 SET")
	for _, q := range h.s.queues("", "") {
		assert.Equal(t, []string{"a", "b"}, q.Queue[0].Names)
		assert.Equal(t, "ann", q.Queue[0].Owner)
	}
}

func TestATakeInAGapIsNoEnd(t *testing.T) {
	h := begin(t, "")
	h.does("put //pawl/sem/a/q1-1 1 LABEL")
	h.does("put //pawl/sem/a/s0.1.1-1 1 LABEL; del //pawl/sem/a/q1-1")
	h.does("put //pawl/sem/a/q2-1 2 LABEL")
	found := newState("")
	found.rev = 9
	found.add(newPosition("//pawl/sem/a/s0.1.2-1", []byte(label), 7, 7, 2))
	var said []string
	for _, e := range h.s.replace(found, began.Add(9*time.Second)) {
		said = append(said, e.String()+" "+e.Waited.String())
	}
	assert.Equal(t, []string{"9 a ended token=2 (cause unknown) -1ns", "9 a acquired token=7 6s"}, said)
}

func TestForeignKeysAreKeptUpToABound(t *testing.T) {
	s := newState("")
	for i := range maxOthers + 5 {
		s.add(foreign(fmt.Sprintf("x/y%dz", i), 1, 1))
	}
	assert.Equal(t, 5, s.ignored)
	assert.Len(t, s.keys, maxOthers)
	assert.Empty(t, s.queues("", ""))
	assert.Len(t, s.queues("", "x/"), 1)
	h := &history{t: t, s: s, known: map[string]int64{}}
	h.does(fmt.Sprintf("del x/y%dz", maxOthers+1))
	assert.Equal(t, 4, s.ignored)
}

func TestAStateForgetsWhatIsGone(t *testing.T) {
	h := begin(t, "")
	h.does("put a/b/1f-1 1f LABEL; put a/x 0 ; put /q%2Fr/2-1 2 v")
	h.does("del a/b/1f-1; del a/x; del /q%2Fr/2-1")
	assert.Empty(t, h.s.keys)
	assert.Empty(t, h.s.folders)
	assert.Zero(t, h.s.others)
}
