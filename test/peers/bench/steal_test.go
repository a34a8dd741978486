//go:build linux

package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatOthersHadIsAShareOfTheMachinesTime(t *testing.T) {
	before, err := readMachineTime()
	require.NoError(t, err)
	assert.Positive(t, before.all)
	assert.Zero(t, before.stolenSince(before))
	after := machineTime{all: before.all + 400, stolen: before.stolen + 100}
	assert.InDelta(t, 0.25, after.stolenSince(before), 1e-9)
}

func TestATurnOfWhichOthersHadMuchIsTakenAgain(t *testing.T) {
	failure := errors.New("no server")
	for _, c := range []struct {
		name             string
		stolen           []float64 // of 100 ticks, in one turn after the other
		fail             error     // of the last turn
		tags             []string
		counts           int // which of the turns
		again, disturbed int
	}{
		{"little", []float64{10}, nil, []string{"x"}, 1, 0, 0},
		{"much, then little", []float64{11, 50, 0}, nil, []string{"x", "xa1", "xa2"}, 3, 2, 0},
		{"much to the end", []float64{40, 20, 60, 30}, nil, []string{"x", "xa1", "xa2", "xa3"}, 2, 3, 1},
		{"an error ends it", []float64{20, 20}, failure, []string{"x", "xa1"}, 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var now machineTime
			var tags []string
			var s steal
			got, err := s.undisturbed(order{Tag: "x"}, func() (machineTime, error) { return now, nil }, func(o order) ([]figures, error) {
				now.all += 100
				now.stolen += c.stolen[len(tags)]
				tags = append(tags, o.Tag)
				if len(tags) == len(c.stolen) && c.fail != nil {
					return nil, c.fail
				}
				return []figures{{N: len(tags)}}, nil
			})
			assert.Equal(t, c.tags, tags)
			assert.Equal(t, steal{c.again, c.disturbed}, s)
			require.ErrorIs(t, err, c.fail)
			if c.fail == nil {
				assert.Equal(t, []figures{{N: c.counts}}, got, "the turn that was disturbed least counts")
			}
		})
	}
}

func TestThePageSaysWhatOthersHad(t *testing.T) {
	assert.Empty(t, (&steal{}).others())
	assert.Contains(t, (&steal{again: 3, disturbed: 2}).others(), "during 3 turns, which were repeated, and during 2 that are counted nevertheless")
}
