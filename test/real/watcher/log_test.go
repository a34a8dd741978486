package watcher_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/watcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is a watch's function that remembers, and checks what every call must obey.
type log struct {
	t       testing.TB
	mu      sync.Mutex
	updates []watcher.Update
	ended   bool
}

func (l *log) note(u watcher.Update) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check(u)
	l.updates = append(l.updates, u)
}

// check asserts guarantee 1 and 3 as far as one can see them from here. Caller holds mu.
func (l *log) check(u watcher.Update) {
	if l.ended {
		l.t.Errorf("a call after the end: %+v", u)
	}
	if u.Err != nil || u.Compacted > 0 {
		l.ended = true
		return
	}
	if u.Created > 0 {
		if len(l.updates) > 0 {
			l.t.Errorf("created after other updates: %+v", u)
		}
		return
	}
	last := int64(0)
	for _, old := range l.updates {
		last = max(last, old.Revision)
	}
	if len(u.Events) == 0 || u.Events[0].ModRevision <= last || u.Revision != u.Events[len(u.Events)-1].ModRevision {
		l.t.Errorf("an update out of order after %d: %+v", last, u)
	}
}

func (l *log) all() []watcher.Update {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]watcher.Update(nil), l.updates...)
}

// revisions are those of all events so far, with events of one revision distinguished.
func (l *log) revisions() []int64 {
	var out []int64
	for _, u := range l.all() {
		for _, e := range u.Events {
			out = append(out, e.ModRevision)
		}
	}
	return out
}

// created is the revision at which a watch from now was created, or 0 if none was.
func (l *log) created() int64 {
	for _, u := range l.all() {
		return u.Created
	}
	return 0
}

// end is the update that ended the watch.
func (l *log) end() watcher.Update {
	l.t.Helper()
	us := l.all()
	require.NotEmpty(l.t, us, "the watch has not ended")
	u := us[len(us)-1]
	require.True(l.t, u.Err != nil || u.Compacted > 0, "the watch has not ended: %+v", u)
	return u
}
