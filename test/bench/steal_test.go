//go:build linux

package main

import (
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

func TestThePageSaysWhatOthersHad(t *testing.T) {
	assert.Empty(t, (&results{}).others())
	assert.Contains(t, (&results{again: 3, disturbed: 2}).others(), "in 3 turns, which were taken again, and in 2 that count all the same")
}
