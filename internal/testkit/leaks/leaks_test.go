package leaks

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestAGoroutineThatStaysIsFoundAndOneThatEndsIsNot(t *testing.T) {
	stay, end := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		forever(stay)
	}()
	go func() { <-end }()
	close(end)
	left := Left(0)
	for end := time.Now().Add(patience); time.Now().Before(end); left = Left(0) { // until the one is in forever, and the other has ended
		if len(left) == 1 && strings.Contains(left[0], "leaks.forever(") {
			break
		}
	}
	require.Len(t, left, 1)
	assert.Contains(t, left[0], "leaks.forever(")
	close(stay)
	<-ended
	assert.Empty(t, Left(patience))
}

func forever(stay chan struct{}) { <-stay }

func TestWhatTheRuntimeAndTestingRunIsNotFound(t *testing.T) {
	assert.Empty(t, others(`goroutine 1 [running]:
anything()

goroutine 5 [chan receive]:
testing.(*T).Run(0x1, {0x2, 0x3}, 0x4)
	/usr/lib/go/src/testing/testing.go:2005 +0x485

goroutine 6 [syscall]:
os/signal.signal_recv()
	/usr/lib/go/src/runtime/sigqueue.go:152 +0x29`))
}
