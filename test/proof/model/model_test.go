package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryInterleavingOfThreeClientsIsSafe(t *testing.T) {
	for _, c := range []Config{{Clients: 3, Attempts: 1}, {Clients: 2, Attempts: 2, Deletes: 1}} {
		states, bad := Explore(c)
		require.Nil(t, bad, "%+v", c)
		assert.Greater(t, states, 10_000)
		t.Logf("%d clients, %d attempts each: %d states", c.Clients, c.Attempts, states)
	}
}

func TestEachRuleIsNeeded(t *testing.T) {
	for name, r := range map[string]Rules{
		"expiry before the deadline":           {ExpireEarly: true},
		"no look at the clock":                 {NoDeadline: true},
		"absence taken for not committed":      {AbsenceSettles: true},
		"no cancel key":                        {NoCancelKey: true},
		"gone predecessor taken for ownership": {TrustEvent: true},
		"own key not compared":                 {AskOnce: true},
		"lost enqueue forgotten":               {ForgetEnqueue: true},
		"delete by name, of a name used again": {BlindDelete: true},
		"grant before the own key is deleted":  {GrantAhead: true},
		"grant by one who did not hold":        {GrantOnLeaving: true},
	} {
		t.Run(name, func(t *testing.T) {
			var bad *Violation
			for _, c := range []Config{{2, 1, 1, r, false}, {2, 2, 1, r, false}, {3, 1, 0, r, false}} {
				if _, bad = Explore(c); bad != nil {
					break
				}
			}
			require.NotNil(t, bad, "the rule is not needed, or the model does not see why")
			t.Log(bad)
		})
	}
}
