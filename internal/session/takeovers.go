package session

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/lease"
)

// takeovers are the takeovers that this process has begun and not finished. One whose answer
// was lost, or that failed later, may have rewritten the session key: the next try with its
// Handle writes the same nonce, and so recognizes its own write.
var takeovers takeoverTable

// A takeoverTable holds takeovers by their Handles. The zero value is ready.
type takeoverTable struct {
	mu    sync.Mutex
	begun map[lease.Handle]*takeover
}

// A takeover is the use of one Handle. One call at a time tries it.
type takeover struct {
	nonce string // of the new value of the session key; set by the caller that tries
	ttl   time.Duration

	// Guarded by the table's mutex.
	trying chan struct{} // closed when the try under way ends; nil if there is none
	last   clock.Instant // when the last try ended
}

// begin returns the takeover of h, once no other caller tries it; the caller has to call end.
func (ts *takeoverTable) begin(ctx context.Context, h lease.Handle, ttl time.Duration) (*takeover, error) {
	for {
		ts.mu.Lock()
		t := ts.begun[h]
		if t == nil {
			t = ts.add(h, ttl)
		}
		trying := t.trying
		if trying == nil {
			t.trying = make(chan struct{})
			ts.mu.Unlock()
			return t, nil
		}
		ts.mu.Unlock()
		select {
		case <-trying:
		case <-ctx.Done():
			return nil, cluster.EndOf(ctx)
		}
	}
}

// add makes a takeover of h, and drops failed ones whose leases must have expired.
func (ts *takeoverTable) add(h lease.Handle, ttl time.Duration) *takeover {
	if ts.begun == nil {
		ts.begun = make(map[lease.Handle]*takeover)
	}
	now := clock.Now()
	maps.DeleteFunc(ts.begun, func(_ lease.Handle, t *takeover) bool {
		return t.trying == nil && now.Sub(t.last) > t.ttl+lateGrant
	})
	t := &takeover{ttl: ttl}
	ts.begun[h] = t
	return t
}

// end ends a try of t; finished: no further try will follow.
func (ts *takeoverTable) end(h lease.Handle, t *takeover, finished bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if finished {
		delete(ts.begun, h)
	}
	close(t.trying)
	t.trying, t.last = nil, clock.Now()
}
