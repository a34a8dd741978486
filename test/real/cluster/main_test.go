package cluster_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) {
	testscale.SideBySide(8) // some wait for time to pass
	goleak.VerifyTestMain(m)
}
