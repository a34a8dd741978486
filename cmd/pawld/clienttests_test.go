package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Python client has tests of its own, with a clock and a daemon that they control.
func TestThePythonClientPassesItsOwnTests(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	require.NoError(t, err, "python3 is needed for this test")
	run := exec.Command(python, "-m", "unittest", "discover", "-s", "tests")
	run.Dir = "../../clients/python"
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
