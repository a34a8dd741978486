package watcher

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestWhatIsDueIsDueAtTheNanosecond(t *testing.T) {
	const within = 3 * time.Second
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	for name, c := range map[string]struct {
		p    pulse
		what act
		at   time.Time
	}{
		"opening":                {pulse{since: t0}, abandon, at(within)},
		"open and quiet":         {pulse{open: true, since: t0}, probe, at(quietFor)},
		"a creation unanswered":  {pulse{open: true, since: at(-time.Hour), unanswered: t0}, abandon, at(within)},
		"active, not answered":   {pulse{open: true, since: at(2 * time.Second), unanswered: t0}, abandon, at(within)},
		"echo unanswered":        {pulse{open: true, since: at(-quietFor), unanswered: t0}, abandon, at(within)},
		"echo outlived by noise": {pulse{open: true, since: at(time.Minute), unanswered: t0}, abandon, at(within)},
	} {
		t.Run(name, func(t *testing.T) {
			what, next := c.p.due(c.at.Add(-1), within)
			assert.Equal(t, nothing, what)
			assert.Equal(t, c.at, next)
			what, _ = c.p.due(c.at, within)
			assert.Equal(t, c.what, what)
		})
	}
}

func TestHearingAnythingPutsAProbeOffButAnswersNoCreation(t *testing.T) {
	t0 := time.Now()
	p := pulse{open: true, since: t0, unanswered: t0}
	p.alive(t0.Add(1))
	assert.Equal(t, pulse{open: true, since: t0.Add(1), unanswered: t0}, p)
}

func TestTheFirstReopeningIsAtOnceAndTheOthersWithinBounds(t *testing.T) {
	w := backoff.Request()
	for range 1000 {
		r := retry{backoff: backoff.Request()}
		assert.Zero(t, r.ended(0))
		for n := range 20 {
			d := r.ended(steady - 1)
			assert.GreaterOrEqual(t, d, min(w.First<<n, w.Most)/2)
			assert.LessOrEqual(t, d, min(w.First<<n, w.Most))
		}
		assert.Zero(t, r.ended(steady), "it lived")
		assert.GreaterOrEqual(t, r.ended(0), w.First/2)
	}
}

// A4: a stream that answers one creation, and then says nothing more, is abandoned while another is
// unanswered.
func TestAStreamThatAnswersOneCreationOwesTheOthers(t *testing.T) {
	began := time.Now()
	p := pulse{open: true, since: began}
	p.sent(began)
	p.sent(began.Add(time.Second))
	p.alive(began.Add(2 * time.Second))
	p.answered(began.Add(2*time.Second), 1)
	what, at := p.due(began.Add(4*time.Second), 3*time.Second)
	assert.Equal(t, nothing, what)
	assert.Equal(t, began.Add(5*time.Second), at)
	what, _ = p.due(began.Add(5*time.Second), 3*time.Second)
	assert.Equal(t, abandon, what)
	p.answered(began.Add(5*time.Second), 0)
	what, _ = p.due(began.Add(6*time.Second), 3*time.Second)
	assert.Equal(t, nothing, what)
}
