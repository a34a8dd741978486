//go:build linux

package matrix

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// fullRateEnv says for how long the soak at full rate lasts.
const fullRateEnv = "PAWL_FULL_RATE"

// Hundreds of names and of workers, whose writes travel together; and few, where a test among
// others is to show that it works.
var (
	hundreds = full{Names: 300, Sessions: 25, Each: 4}
	dozens   = full{Names: 20, Sessions: 2, Each: 3}
)

// target is how many fenced updates an hour has at least.
const target = 100_000

// TestFullRate is TestSoak with very many workers, in three processes, who take very many
// names as fast as they can: locks, shared or not, several at once, and slots of semaphores.
// Under each they read a set, and write it with one element more, to storage that checks
// tokens. It runs for one round of few workers, which is short outside the proof, or for as long
// as PAWL_FULL_RATE says.
func TestFullRate(t *testing.T) {
	t.Parallel()
	lasts := lasting(t, fullRateEnv, 0)
	s := newSoak(t)
	s.brief = lasts == 0 && !testscale.Proof()
	if s.full = hundreds; lasts == 0 {
		s.full = dozens
	}
	s.run(t, lasts)
	report := s.fullRate()
	t.Log("\n" + report + "\n" + s.sum.data())
	updates := s.sum.sets["fenced"][1]
	assert.Positive(t, updates)
	if lasts > 0 {
		assert.GreaterOrEqual(t, updates, int(target*s.sum.Lasted.Hours()), "fenced updates, of %d in an hour", target)
		assert.Positive(t, s.sum.sent.Shared, "writes share requests")
	}
	if !t.Failed() {
		require.NoError(t, publish("full rate", report, s.sum.data()))
	}
}

// fullRate is what the soak at full rate has come to.
func (s *soak) fullRate() string {
	var b strings.Builder
	sum := &s.sum
	lost, updates := sum.sets["fenced"][0], sum.sets["fenced"][1]
	fmt.Fprintf(&b, "On %s, with three real members, and %d workers in %d processes on %d names, on one machine with %d cores, for %v, from seed %d: "+
		"%d rounds with a fault each, and %d pauses of whole processes.\n\n",
		time.Now().UTC().Format("2006-01-02"), workers*s.full.Sessions*s.full.Each, workers, s.full.Names, runtime.NumCPU(),
		sum.Lasted.Round(time.Second), sum.Seed, sum.Rounds, sum.pauses.Load())
	fmt.Fprintf(&b, "| fenced updates | lost | tokens out of order | overlaps | other violations |\n|---|---|---|---|---|\n| %d | %d | %d | %d | %d |\n\n",
		updates, lost, sum.disorder, sum.overlaps, sum.others)
	fmt.Fprintf(&b, "| acquisitions | requests that write to queues | shared by several writes | writes in those | all writes |\n|---|---|---|---|---|\n| %d | %d | %d | %d | %d |\n\n",
		sum.sent.Acquired, sum.sent.Requests, sum.sent.Shared, sum.sent.Together, sum.sent.writes())
	b.WriteString("| held | times |\n|---|---|\n")
	table(&b, sum.modes)
	return b.String()
}
