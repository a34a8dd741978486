package failing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestAFailureIsLoggedWhenItBeginsAndWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := New(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})), "election", "name", "n")
		denied, gone := errors.New("denied"), errors.New("gone")
		r.Works()
		assert.Equal(t, context.Canceled, r.With(context.Canceled))
		for range 3 {
			r.Failed("permission", denied)
			time.Sleep(time.Second)
		}
		r.Failed("cluster", gone)
		err := r.With(context.Canceled)
		assert.EqualError(t, err, "context canceled (the last of 4 failed tries: gone)")
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, gone, "it is not why the loop ends")
		assert.NoError(t, r.With(nil))
		r.Works()
		r.Works()
		r.Failed("cluster", gone)
		assert.Equal(t, []string{
			`level=WARN msg="election fails and is tried again" name=n failure=permission error=denied`,
			`level=WARN msg="election fails and is tried again" name=n failure=cluster error=gone`,
			`level=WARN msg="election works again" name=n failure=cluster tries=4 after=3s`,
			`level=WARN msg="election fails and is tried again" name=n failure=cluster error=gone`,
		}, strings.Split(strings.TrimSpace(log.String()), "\n"))
	})
}

// late is a context whose deadline passes before it ends, if it ends.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

func TestAContextHasEndedOnceItsDeadlineHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(context.Background())
		assert.NoError(t, Ended(ctx))
		l := late{ctx, time.Now().Add(time.Second)}
		assert.NoError(t, Ended(l))
		time.Sleep(time.Second)
		assert.Equal(t, context.DeadlineExceeded, Ended(l), "it does not end")
		time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		assert.Equal(t, why, Ended(l), "it ends a bit later")
		assert.Equal(t, why, Ended(ctx))
	})
}
