package inspect

import (
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// The bounds of what a reader has still to take.
const (
	maxEvents = 4096
	maxBytes  = 16 << 20
)

// A feed holds what a watch has told until it is taken. Where that is too much, it
// is dropped, and there is a gap.
type feed struct {
	news chan struct{}

	mu            sync.Mutex
	batches       []told
	events, bytes int
	gap           bool
	end           error
}

// told is one update, and when it came.
type told struct {
	events []watcher.Event
	at     time.Time
}

// take is the watch's function.
func (f *feed) take(u watcher.Update) {
	f.mu.Lock()
	if len(u.Events) > 0 && !f.gap {
		f.batches = append(f.batches, told{u.Events, time.Now()})
		f.events += len(u.Events)
		f.bytes += weigh(u.Events)
	}
	if len(f.batches) > 1 && (f.events > maxEvents || f.bytes > maxBytes) {
		f.batches, f.events, f.bytes, f.gap = nil, 0, 0, true
	}
	f.gap = f.gap || u.Compacted > 0
	if u.Err != nil {
		f.end = u.Err
	}
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default: // its reader knows already
	}
}

// look is what has come, the first one first.
func (f *feed) look() (batches []told, gap bool, end error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.batches, f.gap, f.end
}

// drop takes the first batch out, which was taken in. A gap has done so before.
func (f *feed) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return
	}
	first := f.batches[0]
	f.batches = f.batches[1:]
	f.events -= len(first.events)
	f.bytes -= weigh(first.events)
}

func weigh(events []watcher.Event) (bytes int) {
	for _, e := range events {
		bytes += len(e.Key) + len(e.Value)
	}
	return bytes
}
