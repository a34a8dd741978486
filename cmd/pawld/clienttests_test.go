package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The clients have tests of their own, with a clock and a daemon that they control.
func TestEachClientPassesItsOwnTests(t *testing.T) {
	for folder, command := range map[string][]string{
		"../../clients/python": {"python3", "-m", "unittest", "discover", "-s", "tests"},
		"../../clients/node":   {"node", "--test", "test/session.test.js", "test/calls.test.js"},
	} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(command[0])
			require.NoError(t, err, "%s is needed for this test", command[0])
			run := exec.Command(program, command[1:]...)
			run.Dir = folder
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
