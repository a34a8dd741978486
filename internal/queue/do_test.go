package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A function that returns why its context was cancelled has said it already.
func TestALossIsSaidOnceWhereTheFunctionReturnedIt(t *testing.T) {
	for name, f := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"wrapped":  func(err error) error { return fmt.Errorf("work: %w", err) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 1}, func(w *fixture) {
				s := w.session()
				c := w.acquire(s)
				err := c.Do(w.Context(), errGivenBack, func(ctx context.Context) error {
					w.f.Revoke(s.ID())
					<-ctx.Done()
					return f(context.Cause(ctx))
				})
				require.ErrorIs(w, err, ErrLost)
				assert.Equal(w, 1, strings.Count(err.Error(), "lost: "), "%v", err)
			})
		})
	}
}
