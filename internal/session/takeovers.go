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

// takeovers are those that this process has begun and not finished. One whose
// answer was lost, or that failed later, may have rewritten the session key: the
// next try with its Handle writes the same value, and so knows its own.
var takeovers takeoverTable

// A takeoverTable holds takeovers by their Handles. The zero one is ready.
type takeoverTable struct {
	mu    sync.Mutex
	begun map[lease.Handle]*takeover
}

// A takeover is one Handle's use. One call at a time tries it.
type takeover struct {
	value []byte // what the session key is rewritten with; the caller that tries it sets it
	ttl   time.Duration

	// Guarded by the table's mutex.
	trying chan struct{} // closed when the try under way ends; nil: there is none
	last   clock.Instant // when the last try ended
}

// begin returns the takeover of h, to be ended, once nobody else tries it.
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

// add makes a takeover of h, and forgets those whose leases have ended by
// themselves since they failed.
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

// end ends a try of t; finished: none will follow.
func (ts *takeoverTable) end(h lease.Handle, t *takeover, finished bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if finished {
		delete(ts.begun, h)
	}
	close(t.trying)
	t.trying, t.last = nil, clock.Now()
}
