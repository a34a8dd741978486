package ui

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/inspect"
)

func TestAStreamSendsTheStateAndThenEachChange(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		ann := w.Session("ann")
		w.Holds(ann, "a")
		w.settled()
		s := w.stream("")
		_, event, data := s.next(w)
		assert.Equal(w, "state", event)
		assert.Contains(w, data, `"name":"a"`)
		assert.Equal(w, "text/event-stream", s.header.Get("Content-Type"))

		h := w.Holds(ann, "b")
		_, c := s.change(w)
		require.Len(w, c.Queues, 1, "what did not change is not sent again")
		assert.Equal(w, "b", c.Queues[0].Name)
		require.Len(w, c.Holds, 1)
		require.NoError(w, h.Release(w.Context()))
		_, c = s.change(w)
		assert.Equal(w, []string{idOf("app/b/")}, c.Gone)
		assert.Equal(w, "released", c.Holds[0].End)
	})
}

func TestChangesThatComeTogetherAreReportedTogether(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		ann := w.Session("ann")
		s := w.stream("")
		s.next(w)
		for i := range 50 {
			w.Holds(ann, fmt.Sprint("n", i))
		}
		sent, messages := 0, 0
		for sent < 50 {
			_, c := s.change(w)
			sent += len(c.Queues)
			messages++
		}
		assert.LessOrEqual(w, messages, 2)
	})
}

func TestWhoWasAwayGetsWhatItMissedOrAllAgain(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		ann := w.Session("ann")
		s := w.stream("")
		first, _, _ := s.next(w)
		w.Holds(ann, "a")
		last, _ := s.change(w)
		s.hangUp()
		<-s.ended
		w.Holds(ann, "b")
		w.settled()

		_, c := w.stream(last).change(w)
		assert.Equal(w, "b", c.Queues[0].Name)
		_, c = w.stream(first).change(w)
		assert.Equal(w, "a", c.Queues[0].Name)
		for _, unknown := range []string{"OTHER-1", last + "000", "x", w.page.hub.boot + "-", w.page.hub.boot + "--1"} {
			_, event, _ := w.stream(unknown).next(w)
			assert.Equal(w, "state", event, unknown)
		}
		w.page.hub.kept = w.page.hub.kept[1:]
		_, event, _ := w.stream(first).next(w)
		assert.Equal(w, "state", event, "what it missed is not kept any more")
	})
}

func TestWhatIsKeptForThoseWhoWereAwayIsBounded(t *testing.T) {
	f := newHub(Options{})
	big := make([]byte, maxKept/10)
	for range 100 {
		f.publish("change", big)
	}
	weight := 0
	for _, m := range f.kept {
		weight += len(m.frame)
	}
	assert.LessOrEqual(t, weight, maxKept)
	assert.Equal(t, weight, f.weight)
	assert.NotEmpty(t, f.kept)
}

func TestASlowReaderIsEndedAndOthersGoOn(t *testing.T) {
	f := newHub(Options{})
	_, slow := f.join("")
	_, quick := f.join("")
	for range maxBehind + 1 {
		f.publish("change", 1)
		<-quick.frames
	}
	n := 0
	for range slow.frames {
		n++
	}
	assert.Equal(t, maxBehind, n)
	f.leave(slow) // as its handler does
	assert.Len(t, f.readers, 1)
}

func TestThereAreOnlySoManyStreams(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		for range maxStreams {
			_, r := w.page.hub.join("")
			require.NotNil(w, r)
		}
		got := w.requests("GET", "/api/events", "")
		assert.Equal(w, 503, got.Code)
		assert.Contains(w, got.Body.String(), "open 64 times")
	})
}

func TestCloseEndsAllStreams(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		s := w.stream("")
		s.next(w)
		w.page.Close()
		_, event, _ := s.next(w)
		assert.Empty(w, event)
		<-s.ended
		assert.Equal(w, 503, w.requests("GET", "/api/events", "").Code)
		w.page.Close()
	})
}

func TestAStreamLivesWhileNothingHappens(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		s := w.stream("")
		s.next(w)
		pings := 0
		for start := time.Now(); time.Since(start) < time.Minute && s.Scan(); {
			if s.Text() == "event: ping" {
				pings++
			}
		}
		assert.GreaterOrEqual(w, pings, 6)
		synctest.Wait()
	})
}

func TestALongQueueIsShownToItsHundredthPosition(t *testing.T) {
	l := inspect.NamedQueue{Name: "a", Prefix: "a/"}
	for i := range 1000 {
		l.Queue = append(l.Queue, inspect.Position{Key: fmt.Sprint("a/", i), Holds: i == 0})
	}
	got := viewOf(l)
	assert.Len(t, got.Positions, maxQueue)
	assert.Equal(t, 999, got.Waiting)
	assert.Equal(t, 1, got.Holding)
}

func TestTextThatJSONCannotCarryIsQuotedAndLongTextCut(t *testing.T) {
	assert.Equal(t, `"a\xff"`, text("a\xff"))
	assert.Equal(t, "ä<script>", text("ä<script>"))
	long := make([]byte, 2*maxText)
	assert.Len(t, clip(string(long)), maxText+len("…"))
	prefix, ok := prefixOf(idOf("a\xff/"))
	assert.True(t, ok)
	assert.Equal(t, "a\xff/", prefix)
}
