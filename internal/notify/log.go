package notify

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// A Log writes records, in a goroutine that runs while there are some. Nobody else ever waits for what
// they are written to: a user's handler, which may be slow, stand still, call back into the library, or
// panic, or a pipe that nobody reads. Close of a nil Log does nothing.
type Log struct {
	report func(m Missed) // writes how many records are missing

	mu     sync.Mutex // never held while the handler is called
	queue  []entry
	missed Missed        // what was dropped since the last record was put into the queue
	idle   chan struct{} // closed when the worker ends; nil if there is none
	closed bool

	// Only the worker uses these.
	failed   bool   // the last record was not written
	panicked string // with what, until that was reported
}

// An entry is a record that waits, or only what was dropped.
type entry struct {
	missed Missed // right before the record
	level  slog.Level
	write  func() // nil if there is no record
}

// Missed are records that were dropped.
type Missed struct {
	Count int
	Level slog.Level // the highest of them
	Panic string     // if the last one was dropped because of a panic, what that said
}

func (m *Missed) add(n int, level slog.Level) {
	if m.Count == 0 || level > m.Level {
		m.Level = level
	}
	m.Count += n
}

// maxRecords is how many records may wait. Further ones are dropped, and counted.
const maxRecords = 1024

// LogGrace is how long the Close of a client, a daemon or a command waits for its log.
const LogGrace = time.Second

// NewLog returns a Log that calls report, in its goroutine, when records were dropped.
func NewLog(report func(m Missed)) *Log { return &Log{report: report} }

// LogOf returns a Log of a user's logger, and the logger to be used in its place. For a nil logger it
// returns a nil Log and a logger without output. A logger of a Log is used as it is, and whoever made
// that Log closes it.
func LogOf(user *slog.Logger) (*Log, *slog.Logger) {
	if user == nil {
		return nil, slog.New(slog.DiscardHandler)
	}
	if _, ours := user.Handler().(*logHandler); ours {
		return nil, user
	}
	to := user.Handler()
	l := NewLog(func(m Missed) { reportTo(to, m) })
	return l, l.Logger(to, nil)
}

// Logger returns a logger whose calls never wait. Methods of to are called in the Log's goroutine only.
// Records below least are left out at once; a nil least leaves that to the handler. What a record
// contains must not change later.
func (l *Log) Logger(to slog.Handler, least slog.Leveler) *slog.Logger {
	return slog.New(&logHandler{log: l, least: least, to: to})
}

// Writer returns a writer whose Write never waits. Each call of it is one record.
func (l *Log) Writer(to io.Writer) io.Writer { return logWriter{l, to} }

type logWriter struct {
	log *Log
	to  io.Writer
}

func (w logWriter) Write(p []byte) (int, error) {
	line := bytes.Clone(p)
	w.log.put(slog.LevelInfo, func() { _, _ = w.to.Write(line) })
	return len(p), nil
}

// put adds a record, or drops it.
func (l *Log) put(level slog.Level, write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return
	case len(l.queue) == maxRecords:
		l.missed.add(1, level)
		return
	}
	l.queue = append(l.queue, entry{l.missed, level, write})
	l.missed = Missed{}
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.work() // ends when no record is left; Close waits for it, up to the grace
	}
}

// Close waits until all records are written, but no longer than grace. It drops what is left then, and
// what comes later. A handler that stands still keeps the Log's goroutine until it returns.
func (l *Log) Close(grace time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if !l.Flush(grace) {
		l.mu.Lock()
		l.queue, l.missed = nil, Missed{}
		l.mu.Unlock()
	}
}

// Flush waits until all records are written, but no longer than most, and reports whether they are.
func (l *Log) Flush(most time.Duration) bool {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return true
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// work writes records until none is left. If the handler ends the goroutine, as testing.T.FailNow does,
// another one continues.
func (l *Log) work() {
	done := false
	defer func() {
		if !done {
			go l.work()
		}
	}()
	for e, ok := l.next(); ok; e, ok = l.next() {
		if m := e.missed; m.Count > 0 {
			m.Panic = l.panicked
			if l.call(m, func() { l.report(m) }); !l.failed {
				l.panicked = ""
			}
		}
		if e.write != nil {
			l.call(Missed{Count: 1, Level: e.level}, e.write)
		}
	}
	done = true
}

// next removes and returns the next entry. If there is none, the worker ends. A handler that has just
// panicked gets nothing before the next record, because it may panic again, for ever.
func (l *Log) next() (e entry, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.queue) > 0:
		e, l.queue = l.queue[0], l.queue[1:]
		return e, true
	case l.missed.Count > 0 && !l.failed:
		e.missed, l.missed = l.missed, Missed{}
		return e, true
	}
	l.queue = nil
	close(l.idle)
	l.idle = nil
	return e, false
}

// call calls f, which writes something. If f panics, what it would have written counts as dropped.
func (l *Log) call(what Missed, f func()) {
	l.failed = true
	defer func() {
		p := recover()
		if !l.failed {
			return
		}
		if p != nil {
			l.panicked = fmt.Sprint(p)
			what.Level = max(what.Level, slog.LevelError)
		}
		l.mu.Lock()
		l.missed.add(what.Count, what.Level)
		l.mu.Unlock()
	}()
	f()
	l.failed = false
}
