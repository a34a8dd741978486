package racedetector

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAQuarterOfTheCellsRunsWithTheDetectorAndShortAndAllElse(t *testing.T) {
	n := 0
	for i := range 1000 {
		if Samples("cell " + strconv.Itoa(i)) {
			n++
		}
	}
	if Short() {
		assert.InDelta(t, 250, n, 50)
	} else {
		assert.Equal(t, 1000, n)
	}
}
