package ui

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// These are how many ended holds are kept, of all queues, and of one.
const (
	maxEnded = 10_000
	maxOfOne = 200
)

// A hold is a period during which somebody held a name, for the browser.
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
	// AtMost is set if it began at From or later. In that case From is when its key was put, or its
	// session's lease granted, by its holder's clock.
	AtMost bool   `json:"atMost,omitempty"`
	To     int64  `json:"to,omitempty"`  // 0 if it has not ended
	End    string `json:"end,omitempty"` // released, lost, ended
	Cause  string `json:"cause,omitempty"`
	By     string `json:"by,omitempty"`
	Late   bool   `json:"late,omitempty"` // it ended before To
}

// A history records who held what when. Its owner guards it.
//
// Invariants: each holder of a queue has one hold that lasts; ended is in the order of the
// ends; counts is how many of ended each queue has.
type history struct {
	count   int64
	lasting map[string]map[fencing.Token]*hold // by the queue's prefix
	ended   []*hold
	counts  map[string]int // by the queue's ID
}

// changes are what a browser does not have yet.
type changes struct {
	Holds  []*hold `json:"holds,omitempty"`
	Forgot []int64 `json:"forgot,omitempty"` // numbers of holds
}

func newHistory() *history {
	return &history{lasting: map[string]map[fencing.Token]*hold{}, counts: map[string]int{}}
}

// meet processes a read. Those who hold now have held since an earlier moment, at the earliest
// since their keys were put. Those who are missing no longer hold.
func (h *history) meet(s *inspect.Snapshot, now time.Time) (c changes) {
	found := map[string]map[fencing.Token]bool{}
	for _, l := range s.Queues {
		found[l.Prefix] = map[fencing.Token]bool{}
		for _, p := range l.Holders() {
			found[l.Prefix][p.Token] = p.Form != inspect.Foreign
		}
	}
	for prefix, of := range h.lasting {
		for token := range of {
			if !found[prefix][token] {
				h.end(&c, prefix, token, unseen(now))
			}
		}
	}
	for _, l := range s.Queues {
		for _, p := range l.Holders() {
			if found[l.Prefix][p.Token] && h.lasting[l.Prefix][p.Token] == nil {
				h.begin(&c, inspect.Event{Name: l.Name, Prefix: l.Prefix, Election: l.Election, Position: p, Time: now, Unsure: true})
			}
		}
	}
	return c
}

// apply processes events.
func (h *history) apply(events []inspect.Event) (c changes) {
	for _, e := range events {
		p := e.Position
		switch e.Kind {
		case inspect.Acquired:
			if p.Mode == inspect.ModeExclusive {
				for token := range h.lasting[e.Prefix] { // its end was not reported
					h.end(&c, e.Prefix, token, unseen(e.Time))
				}
			}
			h.begin(&c, e)
		case inspect.Released, inspect.Lost, inspect.Ended:
			if h.lasting[e.Prefix][p.Token] != nil {
				h.end(&c, e.Prefix, p.Token, e)
			}
		}
	}
	return c
}

// unseen is the end of a hold that was not reported.
func unseen(now time.Time) inspect.Event {
	return inspect.Event{Kind: inspect.Ended, Cause: inspect.Unknown, Time: now, Unsure: true}
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
		N: h.count, Queue: idOf(e.Prefix), Name: text(e.Name), Kind: p.Kind(), Token: p.Token,
		Owner: clip(p.Owner), Host: clip(p.Host), PID: p.PID, From: millis(from), Early: early, AtMost: atMost,
	}
	if h.lasting[e.Prefix] == nil {
		h.lasting[e.Prefix] = map[fencing.Token]*hold{}
	}
	h.lasting[e.Prefix][p.Token] = started
	c.Holds = append(c.Holds, started)
}

// end ends the hold that lasts. It makes a new value, because the old one may be on its way to
// a browser.
func (h *history) end(c *changes, prefix string, token fencing.Token, e inspect.Event) {
	done := *h.lasting[prefix][token]
	if delete(h.lasting[prefix], token); len(h.lasting[prefix]) == 0 {
		delete(h.lasting, prefix)
	}
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
	for _, of := range h.lasting {
		out = slices.AppendSeq(out, maps.Values(of))
	}
	slices.SortFunc(out, func(a, b *hold) int { return int(a.N - b.N) })
	return out
}
