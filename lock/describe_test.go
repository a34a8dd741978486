package lock_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/lock"
)

// logged is v as slog writes it.
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
