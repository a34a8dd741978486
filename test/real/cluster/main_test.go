package cluster_test

import (
	"bytes"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) {
	testscale.SideBySide(8) // some wait for time to pass
	goleak.VerifyTestMain(m)
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
