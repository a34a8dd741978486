package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
)

// V10: a Renew that comes late is answered while half of the client's validity is left, whatever its
// client wants to wait; one that comes in time is parked as before.
// rule: V10
func TestARenewIsNotParkedBeyondHalfOfTheValidityThatItFoundLeft(t *testing.T) {
	const validity = h * 5 / 6
	for name, c := range map[string]struct {
		after   time.Duration // from the last answer to the Renew
		answers time.Duration // after its arrival
	}{
		"in time":                     {0, validity / 2},
		"late":                        {4 * time.Second, (validity - 4*time.Second) / 2},
		"with a millisecond left":     {validity - time.Millisecond, time.Millisecond / 2},
		"when the validity has ended": {validity, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				d.hold("a", "1", "n")
				all, err := d.Renew(w.Context(), d.request("a", 0), nil)
				require.NoError(w, err)
				require.Equal(w, validity.Truncate(time.Millisecond), all[0].Valid)
				time.Sleep(c.after)
				begin := time.Now()
				all, err = d.Renew(w.Context(), d.request("a", h), nil)
				require.NoError(w, err)
				require.Equal(w, registry.Held, all[0].State)
				assert.InDelta(w, c.answers, time.Since(begin), float64(time.Millisecond))
			})
		})
	}
}

// After a restart it is not known what the client believes, or for how long: its first Renew is
// answered at once, and the next is parked.
// rule: V10
func TestTheFirstRenewAfterARestartIsAnsweredAtOnce(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "n")
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		_ = d.client.Close()
		time.Sleep(8 * time.Second)
		next := w.daemon()
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		for _, wait := range []time.Duration{0, 2500 * time.Millisecond} {
			begin := time.Now()
			all, err := next.Renew(w.Context(), next.request("a", 2500*time.Millisecond), nil)
			require.NoError(w, err)
			require.Len(w, all, 1)
			require.Equal(w, registry.Held, all[0].State)
			assert.Equal(w, wait, time.Since(begin))
		}
	})
}

// An answer that nobody heard gave its client no validity.
// rule: V10
func TestAnAnswerThatNobodyHeardIsNoValidity(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "n")
		time.Sleep(3 * time.Second)
		gone, hangUp := context.WithCancel(w.Context())
		go func() { _, _ = d.Renew(gone, d.request("a", h), nil) }() // returns when its client hangs up
		synctest.Wait()
		hangUp()
		time.Sleep(3 * time.Second)
		begin := time.Now()
		_, err := d.Renew(w.Context(), d.request("a", h), nil)
		require.NoError(w, err)
		assert.Less(w, time.Since(begin), 1500*time.Millisecond, "it counts from the answer to Acquire, 6 s ago")
	})
}

// A validity that max hold ends is not renewed by an answer, so that a Renew is parked all the same.
// rule: V10
func TestAValidityThatNoAnswerRenewsDoesNotHurryARenew(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		want := exclusive("n")
		want.MaxHold = 9 * time.Second
		require.Equal(w, registry.Held, d.acquire("a", "1", time.Second, want).State)
		calls := 0
		for begin := time.Now(); time.Since(begin) < 9*time.Second; calls++ {
			_, err := d.Renew(w.Context(), d.request("a", h), nil)
			require.NoError(w, err)
		}
		assert.Less(w, calls, 20)
	})
}

// A parked Renew is answered when its client releases the lock, or the session.
// rule: V5
func TestAParkedRenewIsAnsweredByARelease(t *testing.T) {
	for name, ids := range map[string][]string{"of the lock": {"1"}, "of the session": nil} {
		for what, held := range map[string]bool{"held": true, "never acquired": false} {
			t.Run(name+", "+what, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					d := w.daemon()
					d.hold("a", "2", "other")
					if held {
						d.hold("a", "1", "n")
					}
					answered := make(chan []Lock, 1)
					go func() { // returns when it is answered
						all, _ := d.Renew(w.Context(), d.request("a", h), nil)
						answered <- all
					}()
					synctest.Wait()
					require.Empty(w, answered, "it is parked")
					begin := time.Now()
					_, err := d.Release(w.Context(), d.request("a", 0), ids)
					require.NoError(w, err)
					all := <-answered
					assert.Less(w, time.Since(begin), time.Second)
					if ids == nil {
						assert.Empty(w, all)
					}
				})
			})
		}
	}
}
