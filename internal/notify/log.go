package notify

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A Log passes records on to a handler, in a goroutine that runs while there are some. Nobody else ever
// waits for the handler, which is a user's code: it may be slow, stand still, call back into the
// library, or panic. The methods of a nil Log do nothing.
type Log struct {
	to    slog.Handler
	least slog.Leveler // nil if only to knows what it handles

	mu     sync.Mutex // never held while the handler is called
	queue  []entry
	missed missed        // what was dropped since the last record was put into the queue
	idle   chan struct{} // closed when the worker ends; nil if there is none
	closed bool

	// Only the worker uses these.
	failed   bool   // the last call of the handler did not return
	panicked string // with what, until that was reported
}

// An entry is a record that waits, or only what was dropped.
type entry struct {
	missed missed // right before the record
	ctx    context.Context
	to     *logHandler // nil if there is no record
	record slog.Record
}

// missed counts records that were dropped.
type missed struct {
	count int
	level slog.Level // the highest
}

func (m *missed) add(n int, level slog.Level) {
	if m.count == 0 || level > m.level {
		m.level = level
	}
	m.count += n
}

// maxRecords is how many records may wait. Further ones are dropped, and counted.
const maxRecords = 1024

// LogGrace is how long the Close of a client, a daemon or a command waits for its log.
const LogGrace = time.Second

// NewLog returns a Log of to, whose methods are called in the Log's goroutine only. Records below least
// are not even put into the queue; a nil least leaves that to the handler.
func NewLog(to slog.Handler, least slog.Leveler) *Log { return &Log{to: to, least: least} }

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
	l := NewLog(user.Handler(), nil)
	return l, l.Logger()
}

// Logger returns a logger whose calls never wait. What a record contains must not change later.
func (l *Log) Logger() *slog.Logger { return slog.New(&logHandler{log: l}) }

// put adds a record, or drops it.
func (l *Log) put(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return
	case len(l.queue) == maxRecords:
		l.missed.add(1, e.record.Level)
		return
	}
	e.missed, l.missed = l.missed, missed{}
	l.queue = append(l.queue, e)
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
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		l.mu.Lock()
		l.queue, l.missed = nil, missed{}
		l.mu.Unlock()
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
		if e.missed.count > 0 {
			l.report(e.missed)
		}
		if e.to != nil {
			l.call(missed{1, e.record.Level}, e.write)
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
	case l.missed.count > 0 && !l.failed:
		e.missed, l.missed = l.missed, missed{}
		return e, true
	}
	l.queue = nil
	close(l.idle)
	l.idle = nil
	return e, false
}

// call calls f, which calls the handler. If f panics, what it would have written counts as dropped.
func (l *Log) call(what missed, f func()) {
	l.failed = true
	defer func() {
		p := recover()
		if !l.failed {
			return
		}
		if p != nil {
			l.panicked = fmt.Sprint(p)
			what.level = max(what.level, slog.LevelError)
		}
		l.mu.Lock()
		l.missed.add(what.count, what.level)
		l.mu.Unlock()
	}()
	f()
	l.failed = false
}

// write passes the record on.
func (e entry) write() {
	if h := e.to.handler(); h.Enabled(e.ctx, e.record.Level) {
		_ = h.Handle(e.ctx, e.record)
	}
}

// report says how many records are missing, at the highest of their levels.
func (l *Log) report(m missed) {
	r := slog.NewRecord(time.Now(), m.level, "log records were dropped", 0)
	r.Add("count", m.count)
	if l.panicked != "" {
		r.Add("panic", l.panicked)
	}
	l.call(m, func() {
		entry{ctx: context.Background(), to: &logHandler{log: l}, record: r}.write()
		l.panicked = ""
	})
}
