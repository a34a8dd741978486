package lock_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// However many sessions and renewals meet it.
func TestAFaultOfAMemberIsLoggedWhenItBeginsAndWhenItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*etcdfake.Member)
		at    int // everyday; member 0 leads
	}{"stopped": {(*etcdfake.Member).Stop, 1}, "silent": {(*etcdfake.Member).BlackHole, 2}, "isolated": {(*etcdfake.Member).Isolate, 0}} {
		for _, i := range testscale.Of([]int{c.at}, []int{0, 1, 2}) {
			t.Run(fmt.Sprintf("%s, member %d", name, i), func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					var log inmemory.Log
					client := w.client(pawl.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
					for range 3 {
						s, err := client.NewSession(w.Context(), lease.Options{})
						require.NoError(w, err)
						defer w.held(w.acquireName(s, fmt.Sprint("n", s.ID())))
					}
					time.Sleep(time.Minute)
					before := len(log.String())
					c.fault(w.f.Member(i))
					time.Sleep(time.Hour)
					w.f.Heal()
					time.Sleep(time.Minute)
					said := log.String()[before:]
					assert.NotContains(w, said, "session renewal failed")
					for _, m := range w.f.Members() { // while the members elect a leader, others may fail for a moment
						begins := strings.Count(said, `msg="etcd member failing" endpoint=`+m.Endpoint())
						assert.LessOrEqual(w, begins, 1, said)
						assert.Equal(w, begins, strings.Count(said, `msg="etcd member serves again" endpoint=`+m.Endpoint()), said)
					}
				})
			})
		}
	}
}
