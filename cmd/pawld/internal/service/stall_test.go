package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
)

// stallingWants are what can be acquired with a Stall.
var stallingWants = map[string]func() Want{
	"lock": func() Want { return exclusive("name") },
	"set":  func() Want { return Want{Names: []string{"name", "b"}, Modes: []Mode{Exclusive, Shared}} },
	"slot": func() Want { return Want{Names: []string{"name"}, Modes: []Mode{Semaphore}, Limit: 1} },
	"term": func() Want { return Want{Names: []string{"name"}, Modes: []Mode{Election}} },
}

// A client that renews, and reports no progress, loses what it holds. What it may believe never lasts longer than
// a Stall from its last Progress, as pawld's clock counts.
//
// rule: H6
func TestAClientWithoutProgressLosesWhatItHolds(t *testing.T) {
	const stall = 5 * time.Second
	for name, want := range stallingWants {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				x := want()
				x.Stall = stall
				a := d.acquire("a", "1", 0, x)
				require.Equal(w, registry.Held, a.State)
				progressed := time.Now()
				for range 10 {
					time.Sleep(stall - time.Millisecond)
					l, err := d.Progress(d.request("a", 0), "1")
					require.NoError(w, err)
					require.Equal(w, registry.Held, l.State)
					progressed = time.Now()
					assert.LessOrEqual(w, l.Valid, stall)
				}
				for {
					sent := time.Now()
					l := d.renew("a", time.Second)[0]
					if l.State == registry.Lost {
						assert.Equal(w, Why("STALLED"), WhyOf(l.Why))
						break
					}
					assert.False(w, sent.Add(l.Valid).After(progressed.Add(stall)), "believed for too long")
				}
				assert.Equal(w, stall, time.Since(progressed))
				l, err := d.Progress(d.request("a", 0), "1")
				require.NoError(w, err)
				assert.Equal(w, registry.Lost, l.State)
				assert.Equal(w, Why("STALLED"), WhyOf(l.Why))
				assert.Equal(w, 1, d.Counts().Stalled)
				assert.Zero(w, d.Counts().Cut, "pawld's own session has enough left")
				if name == "set" {
					time.Sleep(20 * time.Second) // its names are kept for a TTL
				}
				b := d.acquire("b", "1", time.Second, want())
				assert.Equal(w, registry.Held, b.State)
			})
		})
	}
}

// What pawld shows of the time without progress, and of locks without a Stall.
func TestTheTimeWithoutProgressIsCounted(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "2", "plain")
		time.Sleep(2 * time.Second)
		assert.Zero(w, d.Counts().Idle)
		l, err := d.Progress(d.request("a", 0), "2")
		require.NoError(w, err)
		assert.Equal(w, registry.Held, l.State, "without a Stall it is only looked at")
		x := exclusive("name")
		x.Stall = time.Minute
		require.Equal(w, registry.Held, d.acquire("a", "1", 0, x).State)
		defer d.keep("a")()
		time.Sleep(7 * time.Second)
		assert.Equal(w, 7, d.Counts().Idle)
		_, err = d.Progress(d.request("a", 0), "1")
		require.NoError(w, err)
		assert.Zero(w, d.Counts().Idle)
		l, err = d.Progress(d.request("a", 0), "3")
		require.NoError(w, err)
		assert.Equal(w, registry.ErrNotHeld, l.Why, "an unknown lock is not held")
		_, err = d.Progress(d.request("nobody", 0), "1")
		require.NoError(w, err)
	})
}

// The earlier of the two bounds is the only cause.
func TestTheEarlierOfMaxHoldAndStallEndsWhatAClientHolds(t *testing.T) {
	for why, bounds := range map[Why][2]time.Duration{"STALLED": {5 * time.Second, 3 * time.Second}, "MAX_HOLD": {3 * time.Second, 5 * time.Second}} {
		inBubble(t, func(w *fixture) {
			d := w.daemon()
			x := exclusive("name")
			x.MaxHold, x.Stall = bounds[0], bounds[1]
			begin := time.Now()
			require.Equal(w, registry.Held, d.acquire("a", "1", 0, x).State)
			for {
				if l := d.renew("a", time.Second)[0]; l.State == registry.Lost {
					assert.Equal(w, why, WhyOf(l.Why))
					break
				}
			}
			assert.Equal(w, 3*time.Second, time.Since(begin))
		})
	}
}

// A Stall outlasts a restart: the time counts from the takeover, and what the client was told before is kept.
//
// rule: H6
func TestAClientWithoutProgressLosesWhatItHoldsAfterARestart(t *testing.T) {
	const stall = 5 * time.Second
	for name, want := range stallingWants {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				x := want()
				x.Stall = stall
				require.Equal(w, registry.Held, d.acquire("a", "1", 0, x).State)
				time.Sleep(4 * time.Second)
				saved := d.left()
				next := w.daemon()
				_, err := next.Resume(w.Context(), saved)
				require.NoError(w, err)
				resumed := time.Now()
				time.Sleep(4 * time.Second)
				l, err := next.Progress(next.request("a", 0), "1")
				require.NoError(w, err)
				require.Equal(w, registry.Held, l.State)
				assert.Less(w, l.Valid, stall)
				for end := resumed.Add(time.Minute); next.renew("a", time.Second)[0].State == registry.Held; {
					require.True(w, time.Now().Before(end), "it is still held")
				}
				assert.Equal(w, 9*time.Second, time.Since(resumed))
				assert.Equal(w, Why("STALLED"), WhyOf(next.one("a").Why))
				assert.Equal(w, 1, next.Counts().Stalled)
			})
		})
	}
}
