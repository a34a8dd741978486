package observe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/observe"
)

func TestAllCallsEachInOrderAndLeavesNilOut(t *testing.T) {
	var got []string
	say := func(who string) observe.Observer {
		return observe.Func(func(_ context.Context, ev observe.Event) {
			got = append(got, fmt.Sprintf("%s %T", who, ev))
		})
	}
	observe.All(say("a"), nil, say("b")).Observe(t.Context(), observe.LockLost{})
	assert.Equal(t, []string{"a observe.LockLost", "b observe.LockLost"}, got)
}
