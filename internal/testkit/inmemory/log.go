package inmemory

import (
	"log/slog"
	"strings"
	"testing/synctest"

	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
)

// A Log is what a client in a bubble has logged. The zero Log is ready to use.
type Log struct{ syncbuffer.Buffer }

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// String returns what was logged.
func (l *Log) String() string {
	synctest.Wait()
	return l.Buffer.String()
}

// Warnings returns how many warnings contain text.
func (l *Log) Warnings(text string) (n int) {
	for line := range strings.SplitSeq(l.String(), "\n") {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}
