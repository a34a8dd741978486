package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/clock"
)

// rig is a registry whose time the test sets, and counts from its beginning.
type rig struct {
	*testing.T
	*Registry
	begin clock.Instant
	end   clock.Instant // of the engine's session: D
	lost  error         // of the engine
	kept  clock.Instant // the last promise
}

const (
	h    = 10 * time.Second
	ms   = time.Millisecond
	id   = "s"
	who  = "uid:1"
	most = 100
)

var cfg = Config{DefaultTTL: h, MinTTL: 3 * time.Second, MaxTTL: 15 * time.Second, Sessions: 4, Locks: 8, Keep: time.Minute}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, begin: clock.Now()}
	r.Registry, r.end = New(cfg, r.begin), r.at(time.Hour)
	return r
}

func (r *rig) at(d time.Duration) clock.Instant { return r.begin.Add(d) }

// Until and Promise implement Holding.
func (r *rig) Until() clock.Instant { return r.end }

func (r *rig) Promise(until clock.Instant) error {
	if r.lost == nil && r.kept.Before(until) {
		r.kept = until
	}
	return r.lost
}

// pass looks in beats until d, so that nothing is a stall.
func (r *rig) pass(d time.Duration) {
	for now := r.now; now.Before(r.at(d)); {
		if now = now.Add(100 * ms); r.at(d).Before(now) {
			now = r.at(d)
		}
		r.Tick(now)
	}
}

var ref = Ref{id, "1"}

// hold has lock ref won at d by a session of ttl h, which is opened then.
func (r *rig) hold(d time.Duration, p Params) {
	r.Helper()
	require.NoError(r, r.Open(id, who, 0, r.at(d), r.at(d)))
	fresh, err := r.Acquire(ref, p, most, r.at(d), r.at(d))
	require.NoError(r, err)
	require.True(r, fresh)
	require.True(r, r.Won(ref, r, r.at(d)))
}

// listed is ref in the answer at now to a request of arrival.
func (r *rig) listed(arrival, now time.Duration) Listed {
	r.Helper()
	l, ok := r.One(ref, r.at(arrival), r.at(now))
	require.True(r, ok)
	return l
}

func (r *rig) refused(code Code, text string, err error) {
	r.Helper()
	var e *Error
	require.ErrorAs(r, err, &e)
	assert.Equal(r, code, e.Code)
	assert.Contains(r, e.Text, text)
}

// rule: V1
func TestV1ARequestGivesItsSessionTheTTLFromItsArrival(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.listed(0, 0)
	r.pass(4 * time.Second)
	require.NoError(t, r.Touch(id, who, r.at(3*time.Second), r.at(4*time.Second)))
	require.NoError(t, r.Touch(id, who, r.at(1*time.Second), r.at(4*time.Second)), "handled late, it moves nothing back")
	r.pass(13*time.Second - 1)
	assert.Equal(t, Held, r.listed(13*time.Second-1, 13*time.Second-1).State)
	l := r.listed(13*time.Second, 13*time.Second)
	assert.Equal(t, Lost, l.State)
	assert.Equal(t, ErrExpired, l.Why)
	assert.Equal(t, []Effect{{ref, Forfeit, ErrExpired}}, r.Effects())
}

// T4: what has expired stays so, though its client comes back, and its session continues.
// rule: V1
func TestV1WhatHasExpiredStaysSo(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.listed(0, 0)
	r.pass(h)
	r.refused(Again, "too late", r.Touch(id, who, r.at(0), r.at(h)))
	require.NoError(t, r.Touch(id, who, r.at(h), r.at(h)))
	assert.Equal(t, Lost, r.listed(h, h).State)
	fresh, err := r.Acquire(ref, Params{}, most, r.at(h), r.at(h))
	require.NoError(t, err)
	assert.False(t, fresh)
	assert.Len(t, r.All(id, r.at(h), r.at(h)), 1)
	require.NoError(t, r.Settle(ref))
	assert.Empty(t, r.All(id, r.at(h), r.at(h)))
}

// rule: V2
func TestV2TheShortestOfThreeEndsCountsFromTheArrival(t *testing.T) {
	for name, c := range map[string]struct {
		d       time.Duration
		maxHold time.Duration
		arrival time.Duration
		want    time.Duration
	}{
		"the session's expiry":    {time.Hour, 0, 0, 8333 * ms},
		"D":                       {6 * time.Second, time.Minute, 0, 5000 * ms},
		"max hold":                {6 * time.Second, 3 * time.Second, 0, 2500 * ms},
		"rounded down":            {time.Hour, 1199999999, 0, 999 * ms},
		"an arrival long ago":     {time.Hour, 0, -4 * time.Second, 8333*ms + 3333*ms}, // end - arrival is longer then, and so is what has passed
		"less than a millisecond": {time.Hour, ms, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.end = r.at(c.d)
			r.hold(0, Params{MaxHold: c.maxHold})
			l := r.listed(c.arrival, 0)
			assert.Equal(t, Held, l.State)
			assert.Equal(t, c.want, l.Valid)
		})
	}
}

// rule: V2
func TestV2MaxHoldEndsAHoldAtTheInstant(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{MaxHold: time.Second})
	r.listed(0, 0)
	r.pass(time.Second - 1)
	assert.Equal(t, Held, r.listed(time.Second-1, time.Second-1).State)
	l := r.listed(time.Second, time.Second)
	assert.Equal(t, Lost, l.State)
	assert.Equal(t, ErrMaxHold, l.Why)
	assert.Equal(t, []Effect{{ref, Forfeit, ErrMaxHold}}, r.Effects())
}

// rule: V4
func TestV4WhatAnAnswerListsWasPromisedFirst(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	assert.Equal(t, clock.Instant{}, r.kept)
	r.listed(0, 0)
	assert.Equal(t, r.at(h), r.kept, "to the nanosecond, not five sixths")
	r.end = r.at(2 * time.Second)
	r.listed(0, ms)
	assert.Equal(t, r.at(h), r.kept, "what was promised stays so")
	r.lost = errors.New("revoked")
	l := r.listed(0, ms)
	assert.Equal(t, Lost, l.State, "what cannot be promised is not held")
	assert.Equal(t, r.lost, l.Why)
	assert.Empty(t, r.Effects())
}

func TestV5WhatTheEngineLostIsLostInTheNextAnswer(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.listed(0, 0)
	why := errors.New("key deleted")
	r.Lose(ref, why, r.at(ms))
	assert.Equal(t, []Listed{{Ref: ref, State: Lost, Why: why}}, r.All(id, r.at(ms), r.at(ms)))
	r.Lose(ref, errors.New("again"), r.at(ms))
	assert.Equal(t, why, r.listed(ms, ms).Why)
	st, err := r.Release(ref, r.at(ms))
	assert.Equal(t, Lost, st)
	assert.Equal(t, why, err)
	assert.Empty(t, r.Effects())
}

// rule: V6
func TestV6ARepeatFindsTheSame(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, h, r.at(0), r.at(0)))
	for i := range 2 {
		fresh, err := r.Acquire(ref, Params{Text: "a"}, most, r.at(0), r.at(0))
		require.NoError(t, err)
		assert.Equal(t, i == 0, fresh)
		assert.Equal(t, Waiting, r.listed(0, 0).State)
	}
	_, err := r.Acquire(ref, Params{Text: "b"}, most, r.at(0), r.at(0))
	r.refused(Invalid, "with other parameters", err)
	require.True(t, r.Won(ref, r, r.at(0)))
	fresh, err := r.Acquire(ref, Params{Text: "a"}, most, r.at(0), r.at(0))
	require.NoError(t, err)
	assert.False(t, fresh)
	st, why := r.Release(ref, r.at(0))
	assert.Equal(t, Releasing, st)
	assert.NoError(t, why)
	r.Released(ref, nil)
	for range 2 {
		st, why = r.Release(ref, r.at(0))
		assert.Equal(t, Released, st)
		assert.NoError(t, why)
	}
	_, err = r.Acquire(ref, Params{Text: "a"}, most, r.at(0), r.at(0))
	r.refused(Invalid, "was released", err)
}

// rule: V6
func TestV6AReleaseOfWhatIsNotKnownRefusesALateAcquire(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	st, why := r.Release(ref, r.at(0))
	assert.Equal(t, Left, st)
	assert.Equal(t, ErrNotHeld, why)
	_, err := r.Acquire(ref, Params{}, most, r.at(0), r.at(0))
	r.refused(Invalid, "was released", err)
	assert.Empty(t, r.All(id, r.at(0), r.at(0)))
}

// A session that has ended may be dropped to make room while a caller waits for its release.
func TestAReleaseOfASessionThatWasDroppedIsNoFailure(t *testing.T) {
	r := newRig(t)
	st, why := r.Release(ref, r.at(0))
	assert.Equal(t, Left, st)
	assert.Equal(t, ErrNotHeld, why)
}

func TestV6AReleasedPlaceIsLeftAndNotWonAnyMore(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	_, err := r.Acquire(ref, Params{}, most, r.at(0), r.at(0))
	require.NoError(t, err)
	st, why := r.Release(ref, r.at(0))
	assert.Equal(t, Left, st)
	assert.Equal(t, ErrNotHeld, why)
	assert.Equal(t, []Effect{{ref, Leave, ErrNotHeld}}, r.Effects())
	assert.False(t, r.Won(ref, r, r.at(0)))
}

func TestV6AnEndedSessionRefusesALateAcquire(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	assert.Equal(t, []Ref{ref}, r.Requests(id))
	r.Ended(id)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)), "not while something is held")
	_, _ = r.Release(ref, r.at(0))
	r.Released(ref, nil)
	assert.Empty(t, r.Requests(id))
	r.Ended(id)
	r.refused(Ended, "has ended", r.Open(id, who, 0, r.at(0), r.at(0)))
	r.pass(h + cfg.Keep - 1)
	r.refused(Ended, "has ended", r.Open(id, who, 0, r.at(h), r.at(h+cfg.Keep-1)))
	r.pass(h + cfg.Keep)
	assert.NoError(t, r.Open(id, who, 0, r.at(h+cfg.Keep), r.at(h+cfg.Keep)))
}

// V8 stands with V1 and max hold: their effects are Forfeit. Only what no answer has listed
// is returned.
// rule: V9
func TestV9APositionThatIsNotPolledIsLeft(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	_, err := r.Acquire(ref, Params{}, most, r.at(0), r.at(0))
	require.NoError(t, err)
	r.pass(3 * time.Second)
	_, err = r.Acquire(ref, Params{}, most, r.at(2*time.Second), r.at(3*time.Second))
	require.NoError(t, err)
	_, err = r.Acquire(ref, Params{}, most, r.at(time.Second), r.at(3*time.Second))
	require.NoError(t, err)
	require.NoError(t, r.Touch(id, who, r.at(3*time.Second), r.at(3*time.Second)), "its session is renewed")
	r.pass(12*time.Second - 1)
	assert.Empty(t, r.Effects())
	r.Tick(r.at(12 * time.Second))
	assert.Equal(t, []Effect{{ref, Leave, ErrExpired}}, r.Effects())
	assert.Equal(t, Lost, r.listed(12*time.Second, 12*time.Second).State)
}

// A request that was long on its way is late with its position too.
// rule: V9
func TestV9APositionWhoseRequestCameLateIsLeftAsSoon(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	r.pass(5 * time.Second)
	require.NoError(t, r.Touch(id, who, r.at(5*time.Second), r.at(5*time.Second)))
	r.pass(10 * time.Second)
	_, err := r.Acquire(ref, Params{}, most, r.at(time.Second), r.at(10*time.Second))
	require.NoError(t, err)
	r.pass(11*time.Second - 1)
	assert.Empty(t, r.Effects())
	r.Tick(r.at(11 * time.Second))
	assert.Equal(t, []Effect{{ref, Leave, ErrExpired}}, r.Effects())
}

// rule: V9
func TestV9ALockThatNoAnswerListedIsReturned(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	_, err := r.Acquire(ref, Params{}, most, r.at(0), r.at(0))
	require.NoError(t, err)
	r.pass(time.Second)
	require.True(t, r.Won(ref, r, r.at(time.Second)))
	r.pass(3 * time.Second)
	require.NoError(t, r.Touch(id, who, r.at(3*time.Second), r.at(3*time.Second)))
	r.pass(11*time.Second - 1)
	assert.Empty(t, r.Effects())
	r.Tick(r.at(11 * time.Second))
	assert.Equal(t, []Effect{{ref, Return, ErrExpired}}, r.Effects())
}

// rule: V9
func TestV9AStallGivesEverySessionItsTimeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		gap  time.Duration
		want State
	}{
		"of a sixth":          {h / 6, Lost},
		"a nanosecond longer": {h/6 + 1, Held},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.hold(0, Params{})
			r.listed(0, 0)
			r.pass(h - c.gap + 1)
			now := h + 1
			assert.Equal(t, c.want, r.listed(now, now).State)
			if c.want == Held {
				assert.Equal(t, 1, r.Counts().Stalls)
				r.pass(now + h - 1)
				assert.Equal(t, Held, r.listed(now+h-1, now+h-1).State)
				assert.Equal(t, Lost, r.listed(now+h, now+h).State)
			}
		})
	}
}

// A session that had expired before the stall began stays expired.
func TestV9AStallBringsNothingBack(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.listed(0, 0)
	r.pass(h)
	assert.Equal(t, Lost, r.listed(h+time.Minute/2, h+time.Minute/2).State)
}

// What was due when the stall began is not forgiven, though nobody had looked at it.
// rule: V9
func TestV9AStallForgivesNothingThatWasDueBefore(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.listed(0, 0)
	r.pass(h - 1)
	require.NoError(t, r.Open("other", who, 0, r.at(h), r.at(h)), "a look at another session")
	assert.Equal(t, Lost, r.listed(2*h, 2*h).State)
}

func TestTickSaysWhenItIsNextToBeCalled(t *testing.T) {
	r := newRig(t)
	assert.Equal(t, r.Beat(), r.Tick(r.begin))
	r.hold(0, Params{MaxHold: ms})
	assert.Equal(t, ms, r.Tick(r.begin))
	assert.Less(t, r.Beat(), cfg.MinTTL/6, "a beat that is a little late is no stall")
}

func TestASessionIsItsIdentitys(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.refused(Denied, "another identity", r.Open(id, "uid:2", 0, r.at(0), r.at(0)))
	r.refused(Denied, "another identity", r.Open(id, "uid:2", 5*time.Second, r.at(0), r.at(0)))
	r.refused(Denied, "another identity", r.Touch(id, "uid:2", r.at(ms), r.at(ms)))
	r.pass(h)
	assert.Equal(t, Lost, r.listed(h, h).State, "and another's requests do not keep it")
}

func TestTTLsOutOfBoundsAreRefused(t *testing.T) {
	r := newRig(t)
	for _, ttl := range []time.Duration{-1, ms, 3*time.Second - ms, 15*time.Second + ms} {
		r.refused(Invalid, "want 0 or 3000 to 15000", r.Open(id, who, ttl, r.at(0), r.at(0)))
	}
	require.NoError(t, r.Open(id, who, 5*time.Second, r.at(0), r.at(0)))
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	assert.Equal(t, 5*time.Second, r.TTL(id))
	r.refused(Invalid, "opened with 5000", r.Open(id, who, 6*time.Second, r.at(0), r.at(0)))
	r.refused(Unknown, "not known", r.Touch("other", who, r.at(0), r.at(0)))
}

// A Release has no TTL. What it opens is for a client that sends its TTL with the next Acquire.
func TestASessionThatAReleaseOpenedHasTheTTLOfItsFirstAcquire(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.OpenForRelease(id, who, r.at(time.Second), r.at(time.Second)))
	_, _ = r.Release(Ref{id, "left"}, r.at(time.Second))
	assert.Equal(t, h, r.TTL(id))
	r.refused(Invalid, "want 0 or 3000 to 15000", r.Open(id, who, ms, r.at(time.Second), r.at(time.Second)))
	r.refused(Denied, "another identity", r.Open(id, "uid:2", 4*time.Second, r.at(time.Second), r.at(time.Second)))
	r.pass(2 * time.Second)

	saved := r.Save(r.at(2 * time.Second))
	next := newRig(t)
	next.Restore(saved, next.at(time.Second))
	for name, x := range map[string]*rig{"the same pawld": r, "its successor": next} {
		x.pass(2 * time.Second)
		require.NoError(t, x.Open(id, who, 3*time.Second, x.at(ms), x.at(2*time.Second)), name) // it arrived first
		assert.Equal(t, 3*time.Second, x.TTL(id), name)
		_, err := x.Acquire(ref, Params{}, most, x.at(ms), x.at(2*time.Second))
		require.NoError(t, err)
		require.True(t, x.Won(ref, x, x.at(2*time.Second)))
		assert.Equal(t, Validity(4*time.Second-ms), x.listed(ms, 2*time.Second).Valid, "%s: 3 s from the Release", name)

		require.NoError(t, x.OpenForRelease(id, who, x.at(2*time.Second), x.at(2*time.Second)), name)
		x.refused(Invalid, "opened with 3000", x.Open(id, who, 4*time.Second, x.at(ms), x.at(2*time.Second)))
		x.pass(5*time.Second - 1)
		assert.Equal(t, Held, x.listed(5*time.Second-1, 5*time.Second-1).State, name)
		assert.Equal(t, Lost, x.listed(5*time.Second, 5*time.Second).State, name)
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	for i := range cfg.Sessions {
		require.NoError(t, r.Open(strings.Repeat("x", i+1), who, 0, r.at(0), r.at(0)))
	}
	r.refused(Full, "4 sessions", r.Open("y", who, 0, r.at(0), r.at(0)))
	acquire := func(i, most int) error {
		_, err := r.Acquire(Ref{"x", strings.Repeat("r", i)}, Params{}, most, r.at(0), r.at(0))
		return err
	}
	require.NoError(t, acquire(1, 2))
	require.NoError(t, acquire(2, 2))
	r.refused(Full, "this identity has 2", acquire(3, 2))
	r.Forget(Ref{"x", "rr"})
	require.NoError(t, acquire(3, 2))
	for i := 4; i < cfg.Locks+3; i++ {
		if i != cfg.Locks+2 {
			require.NoError(t, acquire(i, most))
		}
	}
	r.refused(Full, "8 locks and waiters", acquire(20, most))
	r.pass(h)
	require.NoError(t, r.Open("y", who, 0, r.at(h), r.at(h)), "those that have expired make room")
	assert.Zero(t, r.Counts().Waiting)
	assert.Zero(t, r.live)
	assert.Empty(t, r.each)
}

func TestAnIdentityHasSoManySessions(t *testing.T) {
	r := newRig(t)
	r.cfg.SessionsOf = func(identity string) int { return len(identity) - len("uid:") }
	require.NoError(t, r.Open("a", "uid:12", 0, r.at(0), r.at(0)))
	require.NoError(t, r.Open("b", "uid:12", 0, r.at(0), r.at(0)))
	r.refused(Full, "this identity has 2 sessions", r.Open("c", "uid:12", 0, r.at(0), r.at(0)))
	require.NoError(t, r.Open("a", "uid:12", 0, r.at(0), r.at(0)), "it is one of the two")
	require.NoError(t, r.Open("c", "uid:1", 0, r.at(0), r.at(0)), "another's do not count")
	r.Ended("b")
	require.NoError(t, r.Open("d", "uid:12", 0, r.at(0), r.at(0)), "one that has ended does not count")
}

// Each name of a set counts.
func TestASetCountsAsItsNames(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	_, err := r.Acquire(ref, Params{More: 2}, 3, r.at(0), r.at(0))
	require.NoError(t, err)
	assert.Equal(t, 3, r.live)
	_, err = r.Acquire(Ref{id, "2"}, Params{}, 3, r.at(0), r.at(0))
	r.refused(Full, "this identity has 3", err)
	_, err = r.Acquire(Ref{id, "3"}, Params{More: cfg.Locks - 3}, most, r.at(0), r.at(0))
	r.refused(Full, "3 locks and waiters", err)
	_, err = r.Acquire(Ref{id, "3"}, Params{More: cfg.Locks - 4}, most, r.at(0), r.at(0))
	require.NoError(t, err)
	r.Forget(ref)
	assert.Equal(t, cfg.Locks-3, r.live)
	_, _ = r.Release(Ref{id, "3"}, r.at(0))
	assert.Zero(t, r.live)
	assert.Empty(t, r.each)
}

func TestWhatIsOverIsForgotten(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
	for i := range 3 * maxPast {
		_, _ = r.Release(Ref{id, strings.Repeat("r", i+1)}, r.at(0))
	}
	assert.Len(t, r.sessions[id].rows, maxPast)
	assert.Len(t, r.sessions[id].gone, maxPast)
	for d := time.Duration(0); d < cfg.Keep; d += time.Second {
		r.pass(d)
		require.NoError(t, r.Touch(id, who, r.at(d), r.at(d)))
	}
	r.pass(cfg.Keep - 1)
	assert.Len(t, r.sessions[id].rows, maxPast)
	r.pass(cfg.Keep)
	assert.Empty(t, r.sessions[id].rows)
	r.pass(3 * cfg.Keep)
	assert.Empty(t, r.sessions)
}

// What a call costs depends neither on the locks that its session had, nor on those that it has.
func TestACallCostsTheSameWhateverItsSessionHasAndHad(t *testing.T) {
	looks := func(t *testing.T, held, past int) int {
		r := newRig(t)
		wide := cfg
		wide.Locks = held + 2
		r.Registry = New(wide, r.begin)
		require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
		take := func(request string) Ref {
			ref := Ref{id, request}
			_, err := r.Acquire(ref, Params{}, held+2, r.at(0), r.at(0))
			require.NoError(t, err)
			require.True(t, r.Won(ref, r, r.at(0)))
			_, ok := r.One(ref, r.at(0), r.at(0))
			require.True(t, ok)
			return ref
		}
		leave := func(ref Ref) {
			_, err := r.Release(ref, r.at(0))
			require.NoError(t, err)
			r.Released(ref, nil)
		}
		for i := range past {
			leave(take(fmt.Sprint("past", i)))
		}
		for i := range held {
			take(fmt.Sprint("held", i))
		}
		r.Tick(r.at(ms))
		before := r.looked
		require.NoError(t, r.Touch(id, who, r.at(ms), r.at(ms)))
		leave(take("one"))
		r.Tick(r.at(2 * ms))
		return r.looked - before
	}
	few := looks(t, 1, 0)
	assert.LessOrEqual(t, looks(t, 1, 10*maxPast), few)
	assert.LessOrEqual(t, looks(t, 10*maxPast, 0), few)
}

// V5: what ends many locks at once is reported for each, and a release of many for each.
func TestTheEndOfManyLocksIsToldOfEach(t *testing.T) {
	const many = 5 * maxPast
	full := cfg
	full.Locks = many
	refs := make([]Ref, many)
	for i := range refs {
		refs[i] = Ref{id, strings.Repeat("r", i+1)}
	}
	begin := func(t *testing.T) *rig {
		r := newRig(t)
		r.Registry = New(full, r.begin)
		require.NoError(t, r.Open(id, who, 0, r.at(0), r.at(0)))
		for _, ref := range refs {
			_, err := r.Acquire(ref, Params{}, many, r.at(0), r.at(0))
			require.NoError(t, err)
			require.True(t, r.Won(ref, r, r.at(0)))
		}
		return r
	}
	t.Run("lost", func(t *testing.T) {
		r := begin(t)
		for _, ref := range refs {
			r.Lose(ref, ErrMaxHold, r.at(0))
		}
		for i := range 2 * many { // what else ends drops none of them
			_, _ = r.Release(Ref{id, strings.Repeat("x", i+1)}, r.at(0))
		}
		assert.Len(t, r.All(id, r.at(0), r.at(0)), many)
		for _, ref := range refs {
			st, why := r.Release(ref, r.at(0))
			require.Equal(t, Lost, st)
			require.Equal(t, ErrMaxHold, why)
		}
		assert.Len(t, r.sessions[id].rows, 2*many)
	})
	t.Run("released", func(t *testing.T) {
		r := begin(t)
		for _, ref := range refs {
			st, _ := r.Release(ref, r.at(0))
			require.Equal(t, Releasing, st)
			r.Released(ref, nil)
		}
		for _, ref := range refs {
			st, _ := r.Release(ref, r.at(0))
			require.Equal(t, Released, st)
		}
	})
	t.Run("restored", func(t *testing.T) {
		before, r := begin(t), newRig(t)
		r.Registry = New(full, r.begin)
		r.Restore(before.Save(before.at(0)), r.at(0))
		for _, ref := range refs {
			r.Lose(ref, ErrMaxHold, r.at(0))
		}
		assert.Len(t, r.All(id, r.at(0), r.at(0)), many)
	})
}

func TestSettledNamesOnlyWhatHasEnded(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.refused(Invalid, "has not ended", r.Settle(ref))
	assert.NoError(t, r.Settle(Ref{id, "other"}))
}

// A client settles what is not listed any more. That its release is not decided yet must not
// keep the session's other locks from being renewed.
func TestSettledMayNameWhatIsBeingReleased(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	st, _ := r.Release(ref, r.at(0))
	require.Equal(t, Releasing, st)
	require.NoError(t, r.Settle(ref))
	r.Released(ref, nil)
	assert.Equal(t, Released, r.listed(0, 0).State, "a repeat of Release finds its outcome")
	assert.NoError(t, r.Settle(ref))
	assert.Empty(t, r.sessions[id].rows)
}

func TestWhatIsRememberedOfAReleaseIsSmall(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{Text: strings.Repeat("x", 60<<10), More: 3})
	_, _ = r.Release(ref, r.at(0))
	r.Released(ref, nil)
	assert.Zero(t, r.sessions[id].rows["1"].params)
	assert.Zero(t, r.live)
	assert.Empty(t, r.each)
	_, err := r.Acquire(ref, Params{}, most, r.at(0), r.at(0))
	r.refused(Invalid, "was released", err)
}

func TestWhatIsSavedComesBackWithAllOfItsTime(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{Text: "a", MaxHold: time.Minute})
	r.listed(0, 0)
	_, _ = r.Release(Ref{id, "left"}, r.at(0))
	_, err := r.Acquire(Ref{id, "waits"}, Params{}, most, r.at(0), r.at(0))
	require.NoError(t, err)
	saved := r.Save(r.at(time.Second))
	require.Len(t, saved, 1)
	require.Len(t, saved[0].Rows, 2)

	next := newRig(t)
	next.Restore(saved, next.at(0))
	assert.Equal(t, 1, next.Counts().Held)
	_, err = next.Acquire(Ref{id, "left"}, Params{}, most, next.at(0), next.at(0))
	next.refused(Invalid, "was released", err)
	fresh, err := next.Acquire(Ref{id, "waits"}, Params{}, most, next.at(0), next.at(0))
	require.NoError(t, err)
	assert.True(t, fresh, "a position is requested again")
	next.pass(h - 1)
	assert.Equal(t, Held, next.listed(h-1, h-1).State)
	assert.Equal(t, Lost, next.listed(h, h).State)

	next = newRig(t)
	next.Restore(saved, next.at(0))
	for d := time.Duration(0); d < 59*time.Second; d += time.Second {
		next.pass(d)
		require.NoError(t, next.Touch(id, who, next.at(d), next.at(d)))
	}
	next.pass(59*time.Second - 1)
	assert.Equal(t, Held, next.listed(58*time.Second, 59*time.Second-1).State)
	assert.Equal(t, ErrMaxHold, next.listed(58*time.Second, 59*time.Second).Why, "max hold goes on")
}

// Nobody believes in what a process held that has exited; and no request of it comes any more.
func TestWhatAProcessHadIsTakenAtOnceWhenItExits(t *testing.T) {
	r := newRig(t)
	r.hold(0, Params{})
	r.listed(0, 0)
	waits, orphan := Ref{id, "2"}, Ref{id, "3"}
	for _, other := range []Ref{waits, orphan} {
		_, err := r.Acquire(other, Params{}, most, r.at(0), r.at(0))
		require.NoError(t, err)
	}
	require.True(t, r.Won(orphan, r, r.at(ms)))
	r.Exited(id, r.at(ms))
	r.Exited(id, r.at(ms))
	r.Exited("none", r.at(ms))
	assert.ElementsMatch(t, []Effect{{ref, Abandon, ErrExpired}, {waits, Leave, ErrExpired}, {orphan, Return, ErrExpired}}, r.Effects())
	assert.Equal(t, 1, r.Counts().Expired)
	assert.Zero(t, r.Counts().Sessions)
	assert.ErrorContains(t, r.Touch(id, who, r.at(ms), r.at(ms)), "its process exited")
	r.pass(h + cfg.Keep + time.Second)
	assert.ErrorContains(t, r.Touch(id, who, r.at(h+cfg.Keep+time.Second), r.at(h+cfg.Keep+time.Second)), "not known")
}
