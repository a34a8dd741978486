package session

import (
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Bound is until when a hold may last at most: for Max, and for Stall from its latest progress. At least one
// of them is not 0. Its methods may be called without the mutex.
type Bound struct {
	Max   time.Duration
	Stall time.Duration

	began    clock.Instant
	progress atomic.Int64 // the time from began to the latest progress, or stalled
	notified atomic.Int64 // the progress of which an observer learned
}

// stalled is what Bound.progress is once the hold has ended for Stall, so that no progress that is late revives
// it. The end that follows from it is earlier than every other one, so it has passed too.
const stalled = -1

// Ends is when the hold ends if there is no more progress.
func (b *Bound) Ends() clock.Instant {
	ends, _ := b.ends(b.progress.Load())
	return ends
}

func (b *Bound) ends(progress int64) (at clock.Instant, stalls bool) {
	if b.Stall > 0 {
		at, stalls = b.began.Add(time.Duration(progress)).Add(b.Stall), true
	}
	if most := b.began.Add(b.Max); b.Max > 0 && (!stalls || !at.Before(most)) {
		at, stalls = most, false
	}
	return at, stalls
}

// Past reports whether the hold has ended at now, and whether that is for Stall. The progress is read after now
// was, so that none that came in time is missed, and a stall is final once it was found.
func (b *Bound) Past(now clock.Instant) (past, stalls bool) {
	for {
		progress := b.progress.Load()
		ends, stalls := b.ends(progress)
		switch {
		case now.Before(ends):
			return false, false
		case !stalls || b.progress.CompareAndSwap(progress, stalled):
			return true, stalls
		}
	}
}

// Progress records progress at now, unless the hold has stalled. It reports whether an observer is to learn of
// it, which is ten times in a Stall at most.
func (b *Bound) Progress(now clock.Instant) (notify bool) {
	progress := int64(now.Sub(b.began))
	for last := b.progress.Load(); stalled < last && last < progress; last = b.progress.Load() {
		if b.progress.CompareAndSwap(last, progress) {
			break
		}
	}
	notified := b.notified.Load()
	return progress-notified >= int64(b.Stall/10) && b.notified.CompareAndSwap(notified, progress)
}
