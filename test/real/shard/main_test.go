//go:build unix

package shard_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// role is the environment variable that makes the test binary something else.
const role = "PAWL_SHARD_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		os.Exit(m.Run()) // a child: its one test is named on its command line
	}
	goleak.VerifyTestMain(m)
}
