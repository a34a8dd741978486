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

// A hub keeps the state that the page shows, and publishes its changes to the readers.
type hub struct {
	boot string // names this hub, so that a browser does not mix up message numbers of two hubs
	opts Options

	mu        sync.Mutex
	number    int64 // of the last message
	kept      []message
	weight    int // of kept
	readers   map[*reader]bool
	closed    bool
	revision  int64
	ignored   int
	queues    map[string]inspect.NamedQueue // by prefix
	schedules []scheduleView
	history   *history
	since     time.Time
	failures  [2]failure
}

func newHub(o Options) *hub {
	return &hub{
		boot: rand.Text(), opts: o, readers: map[*reader]bool{}, queues: map[string]inspect.NamedQueue{}, history: newHistory(), schedules: []scheduleView{},
		since: time.Now(),
	}
}

// A snapshot is the whole state that the page shows.
type snapshot struct {
	Boot      string         `json:"boot"`
	Now       int64          `json:"now"`
	Watched   int64          `json:"since"` // of the timeline's beginning
	Namespace string         `json:"namespace"`
	Prefix    string         `json:"prefix"`
	Cluster   string         `json:"cluster"`
	Breakable bool           `json:"breakable"`
	MaxQueue  int            `json:"maxQueue"`
	Number    int64          `json:"number"` // of the last message that it contains
	Failure   string         `json:"failure"`
	Since     int64          `json:"failureSince"`
	Revision  int64          `json:"revision,string"`
	Ignored   int            `json:"ignored"` // foreign keys that are not shown
	Queues    []queueView    `json:"queues"`
	Holds     []*hold        `json:"holds"`
	Schedules []scheduleView `json:"schedules"`
}

// A change is the difference from the previous message.
type change struct {
	Now      int64       `json:"now"`
	Revision int64       `json:"revision,string"`
	Ignored  int         `json:"ignored"`
	Queues   []queueView `json:"queues,omitempty"`
	Gone     []string    `json:"gone,omitempty"` // IDs of queues
	changes
}

// begin applies the first read, or the first one after a failure.
func (h *hub) begin(s *inspect.Snapshot, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update(s, h.history.meet(s, now))
	h.set(following, nil, now)
}

// apply applies events.
func (h *hub) apply(events []inspect.Event, s *inspect.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update(s, h.history.apply(events))
}

// update publishes the difference to s, if there is any. The caller holds mu.
func (h *hub) update(s *inspect.Snapshot, c changes) {
	out := change{Now: time.Now().UnixMilli(), Revision: s.Revision, Ignored: s.Ignored, changes: c}
	queues := make(map[string]inspect.NamedQueue, len(s.Queues))
	for _, l := range s.Queues {
		queues[l.Prefix] = l
		if old, ok := h.queues[l.Prefix]; !ok || !same(old, l) {
			out.Queues = append(out.Queues, viewOf(l))
		}
	}
	for prefix := range h.queues {
		if _, ok := queues[prefix]; !ok {
			out.Gone = append(out.Gone, idOf(prefix))
		}
	}
	news := len(out.Queues)+len(out.Gone)+len(c.Holds)+len(c.Forgot) > 0 || h.ignored != s.Ignored
	h.queues, h.revision, h.ignored = queues, s.Revision, s.Ignored
	if news {
		h.publish("change", out)
	}
}

// state returns the whole state.
func (h *hub) state() snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.snapshot()
}

// snapshot returns the whole state. The caller holds mu.
func (h *hub) snapshot() snapshot {
	failed := h.failure()
	s := snapshot{
		Boot: h.boot, Number: h.number, Now: time.Now().UnixMilli(), Watched: millis(h.since), Namespace: text(h.opts.Namespace), Prefix: text(h.opts.Prefix),
		Cluster: h.opts.Cluster, Breakable: h.opts.Token != "", MaxQueue: maxQueue, Failure: failed.Why, Since: failed.Since,
		Revision: h.revision, Ignored: h.ignored, Queues: []queueView{}, Holds: h.history.all(), Schedules: h.schedules,
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(h.queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(h.queues[a].Name, h.queues[b].Name), cmp.Compare(a, b))
	}) {
		s.Queues = append(s.Queues, viewOf(h.queues[prefix]))
	}
	return s
}

// queue returns the queue with this ID.
func (h *hub) queue(id string) (inspect.NamedQueue, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	prefix, ok := prefixOf(id)
	l, there := h.queues[prefix]
	return l, ok && there
}
