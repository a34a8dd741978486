package watcher

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// system is a table, its watches, and a deliberately simple server at the other end of a link, which
// takes requests and gives answers in order. walk goes through every interleaving of its steps, within
// limits.
type system struct {
	t      testing.TB
	plan   plan
	table  table
	people []*person

	history []*mvccpb.Event // revisions 2, 3 …
	compact int64
	up      bool
	out     []*pb.WatchResponse  // answers that the table has not taken
	serving map[int64]*serverOne // by ID
	losses, refusals,
	compactions int
}

// plan limits a walk.
type plan struct {
	people                                []person
	events, losses, refusals, compactions int
}

// person has a watch.
type person struct {
	from      int64
	deletions bool
	now       bool

	w       *Watch
	state   string // "", "on", "off", "over"
	got     []Event
	created int64 // the revision at which a watch from now was created; 0 if none was
}

// serverOne is a watch at the server.
type serverOne struct {
	next      int64
	deletions bool
	ended     bool // by the server, because of a compaction; it stays in serving until it is cancelled
}

func newSystem(t testing.TB, p plan) *system {
	w := &system{t: t, plan: p, serving: map[int64]*serverOne{}}
	w.table = newTable()
	for _, one := range p.people {
		w.people = append(w.people, &one)
	}
	return w
}

// step is what changes the system. n is a person, or the ID of a watch at the server.
type step struct {
	kind stepKind
	n    int64
}

type stepKind int

const (
	write   stepKind = iota // a put
	remove                  // a deletion
	compact                 // all revisions before the present
	lose                    // the link, with all that is on it
	send                    // on a link, a new one if need be; the server takes it at once
	refuse                  // send, and the server refuses the first creation
	push                    // the server sends what a watch is owed
	answer                  // the table takes an answer
	sweep                   // cancel the creations without a subscriber
	again                   // try what was refused
	subscribe
	cancel
)

// steps are all steps that exist.
func (w *system) steps() []step {
	out := []step{{write, 0}, {remove, 0}, {compact, 0}, {lose, 0}, {send, 0}, {refuse, 0}, {answer, 0}, {sweep, 0}, {again, 0}}
	for i := range w.people {
		out = append(out, step{subscribe, int64(i)}, step{cancel, int64(i)})
	}
	for id := range w.table.lastID + 1 {
		out = append(out, step{push, id})
	}
	return out
}

// step takes a step. It returns false if the step is not possible now.
func (w *system) step(s step) bool {
	switch s.kind {
	case write, remove:
		return w.write(s.kind == remove)
	case compact:
		return w.doCompact()
	case lose:
		return w.lose()
	case send, refuse:
		return w.send(s.kind == refuse)
	case push:
		return w.push(s.n)
	case answer:
		return w.answer()
	case sweep:
		can := len(w.table.unwanted) > 0
		w.table.sweep()
		return can
	case again:
		return w.retry()
	case subscribe:
		return w.subscribe(w.people[s.n])
	default:
		return w.cancel(w.people[s.n])
	}
}

func (w *system) revision() int64 { return int64(len(w.history)) + 1 }

func (w *system) write(deletion bool) bool {
	if len(w.history) == w.plan.events {
		return false
	}
	rev := w.revision() + 1
	e := put("k", rev)
	if deletion {
		e = del("k", rev)
		if n := len(w.history); n == 0 || w.history[n-1].Type == etcdapi.EventDelete {
			return false
		}
	}
	w.history = append(w.history, e)
	return true
}

func (w *system) doCompact() bool {
	if w.compactions == w.plan.compactions || w.revision() == 1 {
		return false
	}
	w.compactions++
	w.compact = w.revision()
	return true
}

func (w *system) lose() bool {
	if !w.up || w.losses == w.plan.losses {
		return false
	}
	w.losses++
	w.up, w.out = false, nil
	clear(w.serving)
	w.table.lost()
	return true
}

func (w *system) send(refuse bool) bool {
	if refuse && (w.refusals == w.plan.refusals || len(w.table.queue) == 0) {
		return false
	}
	w.up = true
	requests := w.table.send()
	for _, r := range requests {
		if id := r.GetCancelRequest().GetWatchId(); id != 0 {
			require.Contains(w.t, w.serving, id, "what is cancelled is there")
			delete(w.serving, id)
			w.out = append(w.out, &pb.WatchResponse{WatchId: id, Canceled: true})
			continue
		}
		if refuse {
			refuse = false
			w.refusals++
			w.out = append(w.out, &pb.WatchResponse{WatchId: -1, Created: true, Canceled: true, CancelReason: "no"})
			continue
		}
		c := r.GetCreateRequest()
		next := c.StartRevision
		if next == 0 {
			next = w.revision() + 1
		}
		w.serving[c.WatchId] = &serverOne{next: next, deletions: len(c.Filters) > 0}
		w.out = append(w.out, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: w.revision()}, WatchId: c.WatchId, Created: true})
	}
	return len(requests) > 0
}

// push has the server send what a watch is owed.
func (w *system) push(id int64) bool {
	one := w.serving[id]
	if one == nil || one.ended || one.next > w.revision() {
		return false
	}
	if one.next < w.compact {
		one.ended = true
		w.out = append(w.out, &pb.WatchResponse{WatchId: id, Canceled: true, CompactRevision: w.compact})
		return true
	}
	r := &pb.WatchResponse{WatchId: id}
	for _, e := range w.history {
		if e.Kv.ModRevision >= one.next && (!one.deletions || e.Type == etcdapi.EventDelete) {
			r.Events = append(r.Events, e)
		}
	}
	one.next = w.revision() + 1
	w.out = append(w.out, r)
	return true
}

func (w *system) answer() bool {
	if len(w.out) == 0 {
		return false
	}
	r := w.out[0]
	w.out = w.out[1:]
	got := w.table.answer(r)
	require.NoError(w.t, got.err)
	if got.refused != nil {
		w.table.postpone(got.refused, time.Time{}, false)
	}
	for _, c := range w.table.takeCalls() {
		w.call(c)
	}
	return true
}

func (w *system) call(c delivery) {
	p := w.people[slices.IndexFunc(w.people, func(p *person) bool { return p.w == c.w })]
	require.Equal(w.t, "on", p.state)
	if c.u.Compacted > 0 {
		p.state = "over"
		last := int64(0)
		if n := len(p.got); n > 0 {
			last = p.got[n-1].ModRevision
		}
		require.Less(w.t, max(p.from, last+1), c.u.Compacted, "something may be missing")
		return
	}
	if c.u.Created > 0 {
		require.True(w.t, p.now)
		require.Zero(w.t, p.created, "said once")
		require.Empty(w.t, p.got, "before any event")
		p.created = c.u.Created
		return
	}
	require.Equal(w.t, p.now, p.created > 0, "before any event")
	p.got = append(p.got, c.u.Events...)
	want := w.due(p)
	for _, e := range p.got {
		want = p.missed(want, e.ModRevision)
		require.NotEmpty(w.t, want)
		require.Equal(w.t, want[0].Kv.ModRevision, e.ModRevision, "nothing is missed, nothing comes twice")
		require.Equal(w.t, want[0].Type == etcdapi.EventDelete, e.Deleted)
		switch {
		case !e.Deleted:
			require.Equal(w.t, want[0].Kv.Value, e.Value)
		default:
			require.Empty(w.t, e.Value)
		}
		want = want[1:]
	}
}

// missed leaves out of evs what a watch from now may miss, according to its Update.Created, before
// revision rev.
func (p *person) missed(evs []*mvccpb.Event, rev int64) []*mvccpb.Event {
	for len(evs) > 0 && evs[0].Kv.ModRevision < rev && evs[0].Kv.ModRevision <= p.created {
		evs = evs[1:]
	}
	return evs
}

// due is which of the events p has to receive.
func (w *system) due(p *person) (out []*mvccpb.Event) {
	for _, e := range w.history {
		if e.Kv.ModRevision >= p.from && (!p.deletions || e.Type == etcdapi.EventDelete) {
			out = append(out, e)
		}
	}
	return out
}

func (w *system) retry() bool {
	due, _ := w.table.take(time.Time{})
	for _, p := range due {
		w.table.add(p.watch)
	}
	return len(due) > 0
}

// subscribe is what Hub.watch does.
func (w *system) subscribe(p *person) bool {
	if p.state != "" {
		return false
	}
	p.state, p.w = "on", &Watch{span: newSpan("k", ""), next: p.from, deletions: p.deletions, now: p.now, wanted: true}
	w.table.add(p.w)
	return true
}

func (w *system) cancel(p *person) bool {
	if p.state != "on" {
		return false
	}
	p.state, p.w.wanted = "off", false
	w.table.leave(p.w)
	return true
}

// check asserts what holds in every state.
func (w *system) check() {
	watches := map[*Watch]stage{}
	put := func(t *Watch, p stage) {
		require.NotContains(w.t, watches, t, "in one list")
		require.Equal(w.t, p, t.stage)
		require.True(w.t, t.wanted || p == requested)
		watches[t] = p
	}
	for _, t := range w.table.queue {
		put(t, queued)
	}
	for _, a := range w.table.requests {
		put(a.watch, requested)
	}
	for id, t := range w.table.live {
		require.Equal(w.t, id, t.id)
		put(t, living)
	}
	for _, p := range w.table.later {
		put(p.watch, delayed)
	}
	require.Len(w.t, watches, w.table.size)
	for _, p := range w.people {
		if p.state == "on" {
			require.Contains(w.t, watches, p.w)
		}
	}
}

// settle takes all remaining steps, without further faults, and asserts that every person has every
// event, and that, once all have cancelled, nothing is left anywhere.
func (w *system) settle() {
	run := func() {
		for more := true; more; {
			more = false
			for _, s := range w.steps() {
				switch s.kind {
				case send, push, answer, sweep, again:
					more = w.step(s) || more
				}
			}
		}
	}
	run()
	w.check()
	for _, p := range w.people {
		if p.state == "on" {
			require.Equal(w.t, p.now, p.created > 0)
			want := w.due(p)
			for _, e := range p.got {
				want = p.missed(want, e.ModRevision)[1:]
			}
			require.Empty(w.t, p.missed(want, math.MaxInt64))
		}
	}
	living := 0
	for id, one := range w.serving {
		require.False(w.t, one.ended)
		require.Contains(w.t, w.table.live, id)
		living++
	}
	require.Equal(w.t, w.table.size, living)
	for _, p := range w.people {
		w.cancel(p)
	}
	run()
	require.Empty(w.t, w.serving)
	require.Zero(w.t, w.table.size)
	require.Zero(w.t, w.table.bytes)
}

// String distinguishes states.
func (w *system) String() string {
	var b strings.Builder
	for _, p := range w.people {
		fmt.Fprint(&b, p.state, len(p.got), p.created, " ")
	}
	for _, e := range w.history {
		fmt.Fprint(&b, e.Type)
	}
	fmt.Fprint(&b, w.compact, w.up, w.losses, w.refusals, w.compactions)
	for _, r := range w.out {
		fmt.Fprint(&b, "|", r.Header.GetRevision(), r.WatchId, r.Created, r.Canceled, r.CompactRevision, len(r.Events))
	}
	one := func(t *Watch) {
		fmt.Fprint(&b, "/", t.id, t.next, t.stage, t.deletions, t.wanted, t.start())
		for i, p := range w.people {
			if p.w == t {
				fmt.Fprint(&b, " ", i)
			}
		}
	}
	for _, t := range w.table.queue {
		one(t)
	}
	for _, a := range w.table.requests {
		one(a.watch)
	}
	for id := range w.table.lastID + 1 {
		if s := w.serving[id]; s != nil {
			fmt.Fprint(&b, ";", id, *s)
		}
		if t := w.table.live[id]; t != nil {
			one(t)
		}
	}
	for _, p := range w.table.later {
		one(p.watch)
	}
	fmt.Fprint(&b, w.table.unwanted, w.table.cancels, w.table.lastID)
	return b.String()
}

// walk goes through every state that the plan allows, each by one path.
func walk(t *testing.T, p plan) (states int) {
	var path []step
	defer func() {
		if t.Failed() {
			t.Log(path)
		}
	}()
	replay := func() *system {
		w := newSystem(t, p)
		for _, s := range path {
			w.step(s)
		}
		return w
	}
	seen := map[string]bool{}
	queue := [][]step{nil}
	for len(queue) > 0 {
		path, queue = queue[0], queue[1:]
		steps := replay().steps()
		base := path
		for _, s := range steps {
			path = append(slices.Clip(base), s)
			w := newSystem(t, p)
			for _, s := range base {
				w.step(s)
			}
			if !w.step(s) {
				continue
			}
			key := w.String()
			if seen[key] {
				continue
			}
			seen[key] = true
			w.check()
			queue = append(queue, path)
			w.settle()
		}
	}
	return len(seen)
}

// Any watch, created at any time and starting at any revision, receives each event that is due once,
// whatever happens meanwhile, and leaves nothing behind.
// rule: A3
func TestEveryWatchReceivesEachEventOnceInAllInterleavings(t *testing.T) {
	if racedetector.On {
		t.Skip("its steps follow one another in one goroutine")
	}
	two := testscale.Of(1, 2)
	for name, p := range map[string]plan{
		"a loss":                  {people: []person{{from: 2}}, events: 2, losses: 1},
		"a loss and a compaction": {people: []person{{from: 2}}, events: 2, losses: 1, compactions: 1},
		"deletions":               {people: []person{{from: 2, deletions: true}}, events: 2, losses: 1, refusals: 1},
		"two, and a loss":         {people: []person{{from: 2}, {from: 3, deletions: true}}, events: two, losses: 1},
		"two, and a refusal":      {people: []person{{from: 2}, {from: 1, deletions: true}}, events: 1, refusals: 1},
		"now, and a loss":         {people: []person{{from: 2, now: true}}, events: 2, losses: 1},
		"now, and a compaction":   {people: []person{{from: 2, now: true, deletions: true}}, events: 2, losses: 1, compactions: 1},
		"now, and a refusal":      {people: []person{{from: 2, now: true}}, events: 2, losses: 1, refusals: 1},
		"now, beside another":     {people: []person{{from: 2}, {from: 3, now: true, deletions: true}}, events: two, losses: 1},
		"two, and a compaction":   {people: []person{{from: 2}, {from: 4}}, events: two, compactions: 1},
	} {
		t.Run(name, func(t *testing.T) {
			states := walk(t, p)
			t.Logf("%d states", states)
			require.Greater(t, states, 50)
		})
	}
}
