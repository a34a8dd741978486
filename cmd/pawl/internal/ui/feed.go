package ui

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// A feed is the state that the page shows, and those who follow it.
type feed struct {
	boot string // names this feed, so that no other's number is taken for one of its own
	opts Options

	mu       sync.Mutex
	number   int64 // of the last message
	kept     []message
	weight   int // of kept
	readers  map[*reader]bool
	closed   bool
	revision int64
	ignored  int
	lines    map[string]inspect.NamedQueue // by prefix
	history  *history
	since    time.Time
	failures [2]failure
}

func newFeed(o Options) *feed {
	return &feed{
		boot: rand.Text(), opts: o, readers: map[*reader]bool{}, lines: map[string]inspect.NamedQueue{}, history: newHistory(),
		since: time.Now(),
	}
}

// A snapshot is all that is shown.
type snapshot struct {
	Boot      string  `json:"boot"`
	Now       int64   `json:"now"`
	Watched   int64   `json:"since"` // of the timeline's beginning
	Namespace string  `json:"namespace"`
	Prefix    string  `json:"prefix"`
	Cluster   string  `json:"cluster"`
	Breakable bool    `json:"breakable"`
	MaxQueue  int     `json:"maxQueue"`
	Number    int64   `json:"number"` // of the last message that it contains
	Trouble   string  `json:"trouble"`
	Since     int64   `json:"troubleSince"`
	Revision  int64   `json:"revision,string"`
	Ignored   int     `json:"ignored"` // foreign keys that are not shown
	Lines     []line  `json:"lines"`
	Holds     []*hold `json:"holds"`
}

// A change is what is different since the message before.
type change struct {
	Now      int64    `json:"now"`
	Revision int64    `json:"revision,string"`
	Ignored  int      `json:"ignored"`
	Lines    []line   `json:"lines,omitempty"`
	Gone     []string `json:"gone,omitempty"` // IDs of lines
	changes
}

// begin takes in a first reading, or one after a failure.
func (f *feed) begin(s *inspect.Snapshot, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell(s, f.history.meet(s, now))
	f.set(following, nil, now)
}

// apply takes in what happened.
func (f *feed) apply(events []inspect.Event, s *inspect.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell(s, f.history.apply(events))
}

// tell publishes the difference to s, if there is any. Caller holds mu.
func (f *feed) tell(s *inspect.Snapshot, c changes) {
	out := change{Now: time.Now().UnixMilli(), Revision: s.Revision, Ignored: s.Ignored, changes: c}
	lines := make(map[string]inspect.NamedQueue, len(s.Queues))
	for _, l := range s.Queues {
		lines[l.Prefix] = l
		if old, ok := f.lines[l.Prefix]; !ok || !same(old, l) {
			out.Lines = append(out.Lines, lineOf(l))
		}
	}
	for prefix := range f.lines {
		if _, ok := lines[prefix]; !ok {
			out.Gone = append(out.Gone, idOf(prefix))
		}
	}
	news := len(out.Lines)+len(out.Gone)+len(c.Holds)+len(c.Forgot) > 0 || f.ignored != s.Ignored
	f.lines, f.revision, f.ignored = lines, s.Revision, s.Ignored
	if news {
		f.publish("change", out)
	}
}

// state is all that is shown.
func (f *feed) state() snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot()
}

// snapshot is all that is shown. Caller holds mu.
func (f *feed) snapshot() snapshot {
	failed := f.failure()
	s := snapshot{
		Boot: f.boot, Number: f.number, Now: time.Now().UnixMilli(), Watched: millis(f.since), Namespace: text(f.opts.Namespace), Prefix: text(f.opts.Prefix),
		Cluster: f.opts.Cluster, Breakable: f.opts.Token != "", MaxQueue: maxQueue, Trouble: failed.Why, Since: failed.Since,
		Revision: f.revision, Ignored: f.ignored, Lines: []line{}, Holds: f.history.all(),
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(f.lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.lines[a].Name, f.lines[b].Name), cmp.Compare(a, b))
	}) {
		s.Lines = append(s.Lines, lineOf(f.lines[prefix]))
	}
	return s
}

// line is the one with this ID.
func (f *feed) line(id string) (inspect.NamedQueue, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prefix, ok := prefixOf(id)
	l, there := f.lines[prefix]
	return l, ok && there
}
