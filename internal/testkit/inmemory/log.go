package inmemory

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing/synctest"
)

// A Log is what a client in a bubble has logged. The zero Log is ready to use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was logged.
func (l *Log) String() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
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
