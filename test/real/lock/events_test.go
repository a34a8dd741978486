package lock_test

import (
	"context"
	"sync"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An observer is one that is a function.
type observer func(observe.Event)

func (f observer) Observe(_ context.Context, ev observe.Event) { f(ev) }

// The answer to an enqueue counts the queue, whatever it reads of it.
func TestARealServerSaysHowManyAreAhead(t *testing.T) {
	t.Parallel()
	enqueued := make(chan int, 1)
	e := observer(func(ev observe.Event) {
		if ev, ok := ev.(observe.LockEnqueued); ok {
			enqueued <- ev.Ahead
		}
	})
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: []string{realServer(t)}, Observer: e})
	require.NoError(t, err)
	defer c.Close()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for want := range 4 {
		waiting.Go(func() {
			_, _ = lock.New(s, "ahead", lock.Options{}).Acquire(ctx) // the first one wins
		})
		assert.Equal(t, want, <-enqueued)
	}
	cancel()
	waiting.Wait()
	require.NoError(t, c.Close())
}
