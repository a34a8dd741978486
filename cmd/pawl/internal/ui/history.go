package ui

import (
	"slices"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// How many ended holds are kept: of all queues, and of one.
const (
	maxEnded = 10_000
	maxOfOne = 200
)

// A hold is a time in which somebody held a name, for the browser.
type hold struct {
	N     int64         `json:"n"` // counts the holds of this page
	Queue string        `json:"queue"`
	Name  string        `json:"name"`
	Kind  string        `json:"kind"`
	Token fencing.Token `json:"token,string"`
	Owner string        `json:"owner,omitempty"`
	Host  string        `json:"host,omitempty"`
	PID   int           `json:"pid,omitempty"`
	From  int64         `json:"from"`
	Early bool          `json:"early,omitempty"` // it began before From
	// AtMost: it began at From or later. From is when its key was put, or its session's lease granted, by its holder's clock.
	AtMost bool   `json:"atMost,omitempty"`
	To     int64  `json:"to,omitempty"`  // 0: it lasts
	End    string `json:"end,omitempty"` // released, lost, ended
	Cause  string `json:"cause,omitempty"`
	By     string `json:"by,omitempty"`
	Late   bool   `json:"late,omitempty"` // it ended before To
}

// A history is who held what when. Its owner guards it.
//
// Invariants: a queue has at most one hold that lasts; ended is in the order of the
// ends; counts is how many of ended each queue has.
type history struct {
	count   int64
	lasting map[string]*hold // by the queue's prefix
	ended   []*hold
	counts  map[string]int // by the queue's ID
}

// changes are what a browser does not have yet.
type changes struct {
	Holds  []*hold `json:"holds,omitempty"`
	Forgot []int64 `json:"forgot,omitempty"` // numbers of holds
}

func newHistory() *history {
	return &history{lasting: map[string]*hold{}, counts: map[string]int{}}
}

// meet takes in what a reading found: who holds now has done so since before, at the
// earliest since its key was put, and who is not found does not hold any more.
func (h *history) meet(s *inspect.Snapshot, now time.Time) (c changes) {
	found := map[string]fencing.Token{}
	for _, l := range s.Queues {
		if p := l.Queue[0]; p.Form != inspect.Foreign {
			found[l.Prefix] = p.Token
		}
	}
	for prefix, old := range h.lasting {
		if found[prefix] != old.Token {
			h.end(&c, prefix, inspect.Event{Kind: inspect.Ended, Cause: inspect.Unknown, Time: now, Unsure: true})
		}
	}
	for _, l := range s.Queues {
		if p := l.Queue[0]; p.Form != inspect.Foreign && h.lasting[l.Prefix] == nil {
			h.begin(&c, inspect.Event{Name: l.Name, Prefix: l.Prefix, Election: l.Election, Position: p, Time: now, Unsure: true})
		}
	}
	return c
}

// apply takes events in.
func (h *history) apply(events []inspect.Event) (c changes) {
	for _, e := range events {
		switch e.Kind {
		case inspect.Acquired:
			if old := h.lasting[e.Prefix]; old != nil { // its end was not reported
				h.end(&c, e.Prefix, inspect.Event{Kind: inspect.Ended, Cause: inspect.Unknown, Time: e.Time, Unsure: true})
			}
			h.begin(&c, e)
		case inspect.Released, inspect.Lost, inspect.Ended:
			if old := h.lasting[e.Prefix]; old != nil && old.Token == e.Position.Token {
				h.end(&c, e.Prefix, e)
			}
		}
	}
	return c
}

func (h *history) begin(c *changes, e inspect.Event) {
	h.count++
	p := e.Position
	from, early, atMost := e.Time, e.Unsure, false
	if e.Unsure && !p.Since.IsZero() {
		early, atMost = false, true
		if p.Since.Before(from) {
			from = p.Since
		}
	}
	started := &hold{
		N: h.count, Queue: idOf(e.Prefix), Name: text(e.Name), Kind: kindOf(e.Election), Token: p.Token,
		Owner: clip(p.Owner), Host: clip(p.Host), PID: p.PID, From: millis(from), Early: early, AtMost: atMost,
	}
	h.lasting[e.Prefix] = started
	c.Holds = append(c.Holds, started)
}

// end ends the hold that lasts. It is a new value: the old one may be on its way
// to a browser.
func (h *history) end(c *changes, prefix string, e inspect.Event) {
	done := *h.lasting[prefix]
	delete(h.lasting, prefix)
	done.To, done.End, done.Cause, done.By, done.Late = millis(e.Time), e.Kind.String(), e.Cause.String(), clip(e.By), e.Unsure
	h.ended = append(h.ended, &done)
	h.counts[done.Queue]++
	c.Holds = append(c.Holds, &done)
	switch {
	case h.counts[done.Queue] > maxOfOne:
		h.forget(c, slices.IndexFunc(h.ended, func(x *hold) bool { return x.Queue == done.Queue }))
	case len(h.ended) > maxEnded:
		h.forget(c, 0)
	}
}

func (h *history) forget(c *changes, i int) {
	old := h.ended[i]
	h.ended = slices.Delete(h.ended, i, i+1)
	if h.counts[old.Queue]--; h.counts[old.Queue] == 0 {
		delete(h.counts, old.Queue)
	}
	c.Forgot = append(c.Forgot, old.N)
}

// all are all holds, in the order in which they began.
func (h *history) all() []*hold {
	out := slices.Clone(h.ended)
	for _, lasting := range h.lasting {
		out = append(out, lasting)
	}
	slices.SortFunc(out, func(a, b *hold) int { return int(a.N - b.N) })
	return out
}
