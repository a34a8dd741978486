package simulate

import (
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/lock"
)

// wantedAfter is how long somebody may wait behind a holder before that learns of it, once the faults have
// ended: what a watch misses, a read finds.
const wantedAfter = 40 * time.Second

// watchWanted asks now and then whether somebody waits, and compares the answer with the truth. When the
// faults have ended, it waits until it has learned of it.
func (a *actor) watchWanted(h *lock.Held) {
	if a.r.IntN(3) > 0 {
		return
	}
	wanted := h.Wanted()
	if h.Slot() >= 0 || h.Err() != nil {
		if wanted != nil && h.Slot() >= 0 {
			a.w.fail("a slot can be wanted: token %d", h.Token())
		}
		return
	}
	wait := between(a.r, 0, a.w.plan.TTL/4)
	if a.calm {
		wait = wantedAfter + 5*time.Second
	}
	select {
	case <-wanted:
		time.Sleep(100 * time.Millisecond) // the truth of a real server comes through a watch, too
		if !a.w.truth.waited(a.wants, int64(h.Token()), 0) {
			a.w.fail("wanted, and nobody has ever waited: token %d", h.Token())
		}
	case <-h.Done():
	case <-time.After(wait):
		if a.calm && h.Err() == nil && a.w.truth.waited(a.wants, int64(h.Token()), wantedAfter) {
			a.w.fail("somebody waits for %v, and it does not seem wanted: token %d; in the queue: %q", wantedAfter, h.Token(), a.w.truth.at())
		}
	}
}

// waited reports whether a key has come behind that of this token which it excludes. With a time, the key
// still exists, and came that long ago.
func (t *truth) waited(wants []want, token int64, since time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range wants {
		for _, l := range t.lives {
			behind := l.name == w.name && l.created > token && l.form.Form != keys.Turnstile && !(w.shared && l.shared)
			if behind && (since == 0 || l.to < 0 && l.from+since < t.now()) {
				return true
			}
		}
	}
	return false
}
