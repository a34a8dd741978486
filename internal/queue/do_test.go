package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A loss is named once if the function returned the cause of its context's end.
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

// A loss that the release of one call of Do finds also cancels the functions of the others.
// rule: H1
func TestALossFoundByAReleaseEndsTheOtherFunctions(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 1}, func(w *fixture) {
		c := w.acquire(w.session()) // not watched yet
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		other := make(chan error)
		go func() {
			other <- c.Do(ctx, errGivenBack, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		w.f.Delete(c.Key())
		err := c.Do(w.Context(), errGivenBack, func(context.Context) error { return nil })
		w.oneCause(ErrKeyDeleted, err)
		w.oneCause(ErrKeyDeleted, <-other)
	})
}
