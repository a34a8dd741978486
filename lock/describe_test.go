package lock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// logged returns v as slog writes it.
func logged(v any) string {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})).Info("", "lock", v)
	return b.String()
}

func TestAHeldSaysWhatItHoldsAndWhether(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		about := fmt.Sprintf(`lock "name" (key %q, token %d): `, h.Key(), h.Token())
		assert.Equal(w, about+"held", h.String())
		assert.Equal(w, fmt.Sprintf("lock.name=name lock.key=%s lock.token=%d lock.held=true\n", h.Key(), h.Token()), logged(h))
		w.release(h)
		assert.Equal(w, about+"released", h.String())
		assert.Equal(w, fmt.Sprintf("lock.name=name lock.key=%s lock.token=%d lock.held=false lock.cause=released\n", h.Key(), h.Token()), logged(h))

		lost := w.acquire(w.session())
		w.f.Delete(lost.Key())
		<-lost.Done()
		assert.Equal(w, fmt.Sprintf(`lock "name" (key %q, token %d): %v`, lost.Key(), lost.Token(), lost.Err()), fmt.Sprint(lost))
		for _, none := range []*lock.Held{nil, {}} {
			assert.Equal(w, `lock "" (key "", token 0): not held: nil handle`, none.String())
			assert.Contains(w, logged(none), "held=false")
		}
	})
}

func TestAHeldSaysInWhichModeItIsHeld(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		m := mutex(s)
		readers := lock.NewMulti(s, lock.Options{}, lock.Shared("a"), lock.Shared("b"))
		mixed := lock.NewMulti(s, lock.Options{}, lock.Shared("a"), lock.Exclusive("b"))
		for _, c := range []struct {
			acquire func(context.Context) (*lock.Held, error)
			mode    lock.Mode
			names   []string
			slot    int
		}{
			{m.Acquire, lock.ModeExclusive, []string{"name"}, -1},
			{m.AcquireShared, lock.ModeShared, []string{"name"}, -1},
			{readers.Acquire, lock.ModeShared, []string{"a", "b"}, -1},
			{mixed.Acquire, lock.ModeExclusive, []string{"a", "b"}, -1},
			{semaphore(s, 2).Acquire, lock.ModeSlot, []string{"name"}, 0},
		} {
			h, err := c.acquire(w.Context())
			require.NoError(w, err)
			for range 2 {
				assert.Equal(w, []any{c.mode, c.mode == lock.ModeShared, c.names, c.names[0], c.slot}, []any{h.Mode(), h.Shared(), h.Names(), h.Name(), h.Slot()})
				assert.Equal(w, h.Key(), h.Keys()[0])
				require.Len(w, h.Keys(), len(c.names))
				require.Len(w, h.Guards(), len(c.names))
				require.NoError(w, h.Release(w.Context()))
			}
		}
	})
}
