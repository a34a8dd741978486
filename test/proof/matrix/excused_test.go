package matrix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/test/proof/history"
)

func TestAnOperatorsBlowExcusesTheReadsOfWhomItStruckAndNothingElse(t *testing.T) {
	s := &sightings{
		keys:    map[queued]string{{"n", 1}: "n/1", {"n", 2}: "n/2", {"n", 3}: "n/3"},
		deleted: map[string]time.Duration{"n/1": 50, "n/2": 120},
	}
	look := func(token int64, at time.Duration) history.Op {
		return history.Op{Kind: history.Look, Name: "n", Token: token, Call: at, Return: at, Outcome: history.OK}
	}
	over := look(2, 130)
	over.Outcome = history.Refused
	kept := []history.Op{look(1, 110), look(2, 90), look(3, 125), over}
	assert.Equal(t, kept, s.excused(append([]history.Op{look(2, 100), look(2, 125)}, kept...), 100))
}
