package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// written is a log's handler that records what it writes, after it has called do.
type written struct {
	do func(message string)

	mu    *sync.Mutex
	lines *[]string
	with  string
}

func newWritten(do func(string)) *written {
	return &written{do: do, mu: &sync.Mutex{}, lines: new([]string)}
}

func (h *written) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *written) Handle(ctx context.Context, r slog.Record) error {
	h.do(r.Message)
	line := fmt.Sprint(r.Level, " ", r.Message, h.with)
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	if v := ctx.Value(valueKey{}); v != nil {
		line += fmt.Sprint(" ", v)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.lines = append(*h.lines, line)
	return errors.New("is nobody's business")
}

func (h *written) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.do("WithAttrs")
	c := *h
	c.with += fmt.Sprint(" with ", attrs)
	return &c
}

func (h *written) WithGroup(name string) slog.Handler {
	h.do("WithGroup")
	c := *h
	c.with += " in " + name
	return &c
}

type valueKey struct{}

func (h *written) all() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, *h.lines...)
}

func nothing(string) {}

func TestALogWritesRecordsInOrderAsTheyWereWhenLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newWritten(func(string) { <-release })
		l, log := LogOf(slog.New(h))
		defer l.Close(0)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
		attrs := []any{"n", 1}
		log.InfoContext(ctx, "first", attrs...)
		attrs[1] = 2
		cancel()
		time.Sleep(time.Second)
		log.With("a", 1).WithGroup("g").With("b", 2).Warn("second")
		log.Debug("is not enabled")
		log.Error("third", "err", errors.New("e"))
		assert.Empty(t, h.all())
		close(release)
		assert.Equal(t, []string{"INFO first n=1 value", "WARN second with [a=1] in g with [b=2]", "ERROR third err=e"}, h.all())
	})
}

func TestARecordHasTheTimeOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		slow := make(chan struct{})
		h := newWritten(func(string) { <-slow })
		l, log := LogOf(slog.New(fanOut{h, slog.NewTextHandler(&out, nil)}))
		log.Info("one")
		at := time.Now()
		log.Info("two")
		time.Sleep(time.Hour)
		close(slow)
		l.Close(time.Second)
		assert.Contains(t, out.String(), "time="+at.Format("2006-01-02T15:04:05.000Z07:00")+" level=INFO msg=two")
	})
}

// fanOut is a handler of several.
type fanOut [2]slog.Handler

func (f fanOut) Enabled(context.Context, slog.Level) bool { return true }
func (f fanOut) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f fanOut) WithGroup(string) slog.Handler            { return f }
func (f fanOut) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(f[0].Handle(ctx, r), f[1].Handle(ctx, r))
}

// rule: T6
func TestNoCallWaitsForAHandlerAndWhatIsDroppedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newWritten(func(string) { <-release })
		l, log := LogOf(slog.New(h))
		log.Info("first")
		synctest.Wait() // it is being written
		for range maxRecords + 2 {
			log.Info("more")
		}
		log.Warn("the last that is dropped")
		close(release)
		all := h.all()
		require.Len(t, all, 1+maxRecords+1)
		assert.Equal(t, "WARN log records were dropped count=3", all[1+maxRecords], "at the highest of their levels")
		log.Info("next")
		assert.Equal(t, "INFO next", h.all()[1+maxRecords+1])
		l.Close(time.Second)
	})
}

func TestWhereRecordsAreMissingTheNextOneIsPrecededByTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		h := newWritten(func(string) { <-step })
		l, log := LogOf(slog.New(h))
		log.Info("first")
		synctest.Wait()
		for range maxRecords + 7 {
			log.Info("more")
		}
		step <- struct{}{}
		synctest.Wait() // there is room for one
		log.Info("after the gap")
		close(step)
		all := h.all()
		assert.Equal(t, []string{"INFO log records were dropped count=7", "INFO after the gap"}, all[len(all)-2:])
		l.Close(time.Second)
	})
}

// A handler's panic, wherever it is, costs one record, and so does a handler that ends its goroutine.
// rule: T6
func TestAHandlerThatPanicsCostsOneRecordEachTime(t *testing.T) {
	for what, fail := range map[string]func(){"panic=ouch": func() { panic("ouch") }, "": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			fails := true
			h := newWritten(func(string) {
				if fails {
					fail()
				}
			})
			l, log := LogOf(slog.New(h))
			log.Info("one")
			log.With("a", 1).Info("two")
			assert.Empty(t, h.all())
			fails = false
			log.Info("three")
			level := "INFO"
			if what != "" {
				level, what = "ERROR", " "+what
			}
			assert.Equal(t, []string{level + " log records were dropped count=2" + what, "INFO three"}, h.all())
			log.Info("four")
			assert.Equal(t, "INFO four", h.all()[2])
			l.Close(time.Second)
		})
	}
}

func TestAHandlerThatAlwaysPanicsGetsNothingByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := newWritten(func(string) { calls++; panic("again") })
		l, log := LogOf(slog.New(h))
		for n := range 10 {
			log.Info("record")
			synctest.Wait()
			assert.LessOrEqual(t, calls, 2*(n+1), "the record, and what is missing")
		}
		l.Close(time.Second)
	})
}

func TestAHandlerMayLogAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Log
		var log *slog.Logger
		h := newWritten(func(message string) {
			if message == "first" {
				log.Info("second")
				l.Close(time.Second)
			}
		})
		l, log = LogOf(slog.New(h))
		log.Info("first")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"INFO first"}, h.all(), "what was left at the end of the grace is dropped")
	})
}

// rule: T6
func TestCloseWaitsForTheLogNoLongerThanItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slow := range []time.Duration{0, 600 * time.Millisecond, time.Hour} {
			h := newWritten(func(string) { time.Sleep(slow) })
			l, log := LogOf(slog.New(h))
			log.Info("first")
			log.With("second", 2).Info("record")
			began := time.Now()
			l.Close(2 * time.Second)
			assert.Equal(t, min(3*slow, 2*time.Second), time.Since(began), "two records, and WithAttrs")
			log.Info("too late")
			time.Sleep(10 * time.Hour)
			want := []string{"INFO first", "INFO record with [second=2]"}
			if slow == time.Hour {
				want = want[:1]
			}
			assert.Equal(t, want, h.all())
			l.Close(time.Second)
		}
	})
}

func TestALogOfALogIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := NewLog(func(Missed) {}).Logger(newWritten(nothing), slog.LevelWarn).With("a", 1)
		other, second := LogOf(first)
		assert.Nil(t, other, "it belongs to somebody else")
		other.Close(time.Hour)
		assert.Same(t, first, second)
		assert.False(t, second.Enabled(t.Context(), slog.LevelInfo))
		assert.True(t, second.Enabled(t.Context(), slog.LevelWarn))
	})
}

func TestWithoutALoggerThereIsNoLog(t *testing.T) {
	l, log := LogOf(nil)
	assert.Nil(t, l)
	assert.False(t, log.Enabled(t.Context(), slog.LevelError))
	l.Close(time.Hour)
}

// stuck is a writer that nobody reads.
type stuck struct {
	strings.Builder
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.Builder.Write(p)
}

// rule: T6
func TestAWriterNeverWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{release: make(chan struct{})}
		l := NewLog(func(m Missed) { fmt.Fprintln(&s.Builder, m.Count, "lines are missing") })
		out := l.Writer(s)
		line := []byte("first\n")
		n, err := out.Write(line)
		assert.NoError(t, err)
		assert.Equal(t, len(line), n)
		copy(line, "LATER")
		synctest.Wait()
		assert.False(t, l.Flush(time.Second))
		for range maxRecords + 3 {
			fmt.Fprintln(out, "more")
		}
		close(s.release)
		assert.True(t, l.Flush(time.Second))
		assert.Equal(t, "first\n"+strings.Repeat("more\n", maxRecords)+"3 lines are missing\n", s.String())
		l.Close(time.Second)
	})
}
