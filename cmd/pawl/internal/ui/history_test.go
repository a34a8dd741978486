package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

var began = time.UnixMilli(1_000_000)

// event is an event of a name's holder, so many seconds after the beginning.
func event(k inspect.Kind, name string, token fencing.Token, second int) inspect.Event {
	return inspect.Event{
		Kind: k, Name: name, Prefix: name + "/", Position: inspect.Position{Token: token, Form: inspect.Pawl, Mode: inspect.ModeExclusive},
		Time: began.Add(time.Duration(second) * time.Second),
	}
}

// sketch is a hold in short.
func sketch(holds []*hold) (out []string) {
	for _, h := range holds {
		s := fmt.Sprintf("%s %d %d-", h.Name, h.Token, (h.From-began.UnixMilli())/1000)
		if h.Early {
			s = "<" + s
		}
		if h.AtMost {
			s = ">" + s
		}
		if h.To != 0 {
			s += fmt.Sprintf("%d %s", (h.To-began.UnixMilli())/1000, h.End)
		}
		if h.Late {
			s += "?"
		}
		out = append(out, s)
	}
	return out
}

func TestAHistoryIsWhoHeldWhat(t *testing.T) {
	h := newHistory()
	h.apply([]inspect.Event{event(inspect.Acquired, "a", 1, 1), event(inspect.Enqueued, "a", 2, 2), event(inspect.Released, "a", 1, 3), event(inspect.Acquired, "a", 2, 3)})
	c := h.apply([]inspect.Event{event(inspect.GaveUp, "a", 9, 4), event(inspect.Lost, "a", 2, 5), event(inspect.Lost, "a", 2, 6), event(inspect.Released, "b", 7, 6)})
	assert.Equal(t, []string{"a 2 3-5 lost"}, sketch(c.Holds), "an event that comes twice counts once, and one without a holder not at all")
	assert.Equal(t, []string{"a 1 1-3 released", "a 2 3-5 lost"}, sketch(h.all()))
	h.apply([]inspect.Event{event(inspect.Acquired, "a", 5, 7), event(inspect.Acquired, "a", 6, 8)})
	assert.Equal(t, []string{"a 5 7-8 ended?", "a 6 8-"}, sketch(h.all())[2:], "an end that was not reported")
}

func TestAHistoryHasSeveralHoldersOfOneName(t *testing.T) {
	h := newHistory()
	shared := func(k inspect.Kind, token fencing.Token, second int) inspect.Event {
		e := event(k, "a", token, second)
		e.Position.Mode = inspect.ModeShared
		return e
	}
	h.apply([]inspect.Event{shared(inspect.Acquired, 1, 1), shared(inspect.Acquired, 2, 2), shared(inspect.Lost, 1, 3), shared(inspect.Released, 2, 4)})
	h.apply([]inspect.Event{event(inspect.Acquired, "a", 3, 4)})
	assert.Equal(t, []string{"a 1 1-3 lost", "a 2 2-4 released", "a 3 4-"}, sketch(h.all()))
	c := h.meet(&inspect.Snapshot{Queues: []inspect.NamedQueue{{Name: "a", Prefix: "a/", Queue: []inspect.Position{
		{Token: 5, Form: inspect.Pawl, Mode: inspect.ModeShared, Holds: true}, {Token: 6, Form: inspect.Pawl, Mode: inspect.ModeShared, Holds: true},
		{Token: 7, Form: inspect.Pawl, Mode: inspect.ModeExclusive},
	}}}}, began.Add(9*time.Second))
	assert.ElementsMatch(t, []string{"a 3 4-9 ended?", "<a 5 9-", "<a 6 9-"}, sketch(c.Holds))
}

func TestAReadingBeginsAndEndsHolds(t *testing.T) {
	holder := func(name string, token fencing.Token, f inspect.Form) inspect.NamedQueue {
		return inspect.NamedQueue{Name: name, Prefix: name + "/", Queue: []inspect.Position{{Token: token, Form: f, Holds: true}}}
	}
	h := newHistory()
	h.meet(&inspect.Snapshot{Queues: []inspect.NamedQueue{holder("a", 1, inspect.Pawl), holder("b", 2, inspect.Etcd), holder("c", 3, inspect.Foreign), holder("d", 4, inspect.Pawl)}}, began)
	assert.Len(t, h.all(), 3, "a foreign key holds nothing")
	c := h.meet(&inspect.Snapshot{Queues: []inspect.NamedQueue{holder("a", 1, inspect.Pawl), holder("b", 5, inspect.Etcd)}}, began.Add(time.Second))
	assert.Len(t, c.Holds, 3)
	assert.ElementsMatch(t, []string{"<a 1 0-", "<b 2 0-1 ended?", "<d 4 0-1 ended?", "<b 5 1-"}, sketch(h.all()))
}

func TestARestartTakesSinceWhenFromTheKeys(t *testing.T) {
	holder := func(name string, since time.Time, election bool) inspect.NamedQueue {
		return inspect.NamedQueue{Name: name, Prefix: name + "/", Election: election, Queue: []inspect.Position{{Token: 1, Form: inspect.Pawl, Since: since, Election: election, Holds: true}}}
	}
	h := newHistory()
	h.meet(&inspect.Snapshot{Queues: []inspect.NamedQueue{
		holder("lock", began.Add(-time.Hour), false), holder("chief", began.Add(-time.Minute), true), holder("ahead", began.Add(time.Minute), false), holder("none", time.Time{}, false),
	}}, began)
	assert.ElementsMatch(t, []string{">lock 1 -3600-", ">chief 1 -60-", ">ahead 1 0-", "<none 1 0-"}, sketch(h.all()), "a holder's clock may be ahead of ours")
}

func TestAHistoryForgetsOfOneQueueFirstAndThenOfAll(t *testing.T) {
	h := newHistory()
	turn := func(name string, token int) (forgot []int64) {
		return h.apply([]inspect.Event{event(inspect.Acquired, name, fencing.Token(token), token), event(inspect.Released, name, fencing.Token(token), token)}).Forgot
	}
	turn("rare", 1)
	for i := range maxOfOne {
		assert.Empty(t, turn("busy", i+2))
	}
	assert.Equal(t, []int64{2}, turn("busy", 1000), "the first one of busy")
	require.Len(t, h.ended, maxOfOne+1)
	assert.Equal(t, "rare", h.ended[0].Name)
	for i := len(h.ended); i < maxEnded; i++ {
		assert.Empty(t, turn(fmt.Sprint("n", i), i))
	}
	assert.Equal(t, []int64{1}, turn("last", 1))
	assert.Len(t, h.ended, maxEnded)
	assert.NotContains(t, h.counts, idOf("rare/"))
}
