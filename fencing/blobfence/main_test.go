package blobfence_test

import (
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
