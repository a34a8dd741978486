package session

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// A storm is a number of pauses of members while one client has many sessions.
const (
	stormSessions = 30
	stormTTL      = 3 * time.Second
)

var stormPauses = testscale.Of(5, 20)

// survivable is the bound of the pauses that end no session, whenever they begin: the last confirmed
// renewal is then a quarter of the TTL old at most, and validity counts from it.
const survivable = stormTTL*5/6 - stormTTL/4

// silences are the ways in which a member pauses. What is sent meanwhile arrives, or is answered, at
// the end.
var silences = []func(*etcdfake.Member){(*etcdfake.Member).BlackHole, (*etcdfake.Member).Deafen, (*etcdfake.Member).Mute}

// storm is how many sessions a storm ends; others take their places. Between two pauses it rests, for
// up to a second more than rest. pause says how many members pause, and for how long.
func storm(t *testing.T, seed uint64, rest time.Duration, pause func(rng *rand.Rand) (members int, lasts time.Duration)) (lost int) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		grant := func() *Session {
			defer sleep(20 * time.Millisecond)
			return r.session(lease.Options{TTL: stormTTL})
		}
		var all []*Session
		for range stormSessions {
			all = append(all, grant())
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for range stormPauses {
			members, lasts := pause(rng)
			for _, i := range rng.Perm(3)[:members] {
				silences[rng.IntN(len(silences))](r.Member(i))
			}
			sleep(lasts)
			for _, m := range r.Members() {
				m.Heal()
			}
			sleep(rest + time.Duration(rng.Int64N(int64(time.Second))))
			for i, s := range all {
				if s.Err() != nil {
					lost++
					all[i] = grant()
				}
			}
		}
	})
	return lost
}

// Rule N3: a storm of pauses of one member or several, each shorter than any session survives whenever
// it begins, ends none of a client's many sessions. A longer one ends those that are about to renew
// when it begins.
// rule: N3
func TestManySessionsSurviveAStormOfPausedMembers(t *testing.T) {
	for seed := range testscale.Of(uint64(2), 8) {
		lost := storm(t, seed, stormTTL/2, func(rng *rand.Rand) (int, time.Duration) {
			return 1 + rng.IntN(3), time.Duration(rng.Int64N(int64(survivable)))
		})
		assert.Zero(t, lost, "storm %d", seed)
	}
}

// Rule N3: all members pause at once. Below the bound no session ends, and no session survives a pause
// as long as its validity. In the proof -v shows what pauses between these two cost.
func TestAPauseOfAllMembersEndsTheSessionsItOutlasts(t *testing.T) {
	const rest = 2 * stormTTL
	storms, pauses := 1, []time.Duration{survivable - 10*time.Millisecond, stormTTL * 5 / 6}
	if testscale.Proof() {
		storms = 10
		pauses = append(pauses, 1800*time.Millisecond, 2*time.Second, 2200*time.Millisecond, 2400*time.Millisecond)
		slices.Sort(pauses)
	}
	for _, lasts := range pauses {
		t.Run(lasts.String(), func(t *testing.T) {
			lost := 0
			for seed := range uint64(storms) {
				lost += storm(t, seed, rest, func(*rand.Rand) (int, time.Duration) { return 3, lasts })
			}
			all := storms * stormPauses * stormSessions
			t.Logf("| %g s | %d | %d |", lasts.Seconds(), all, lost)
			switch {
			case lasts < survivable:
				assert.Zero(t, lost)
			case lasts >= stormTTL*5/6:
				assert.Equal(t, all, lost)
			}
		})
	}
}
