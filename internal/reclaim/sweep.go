package reclaim

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
)

// A Reclaimer reclaims what dead processes have left in a directory. Its functions are called from several
// goroutines, and may be nil. It is safe for concurrent use.
type Reclaimer struct {
	Dir  *Dir
	Host session.Host

	// Reclaimed is called for each lease that was settled, so long after the proof of death. err is nil, or
	// matches lease.ErrTakenOver, or says why the file could not be removed.
	Reclaimed func(l Left, after time.Duration, err error)
	// Failing is called when the cluster does not settle a lease at once. It is tried on.
	Failing func(l Left, err error)
	// Refused is called for each file that proves nothing, once.
	Refused func(name string, err error)

	every time.Duration // between looks at all files, for tests; 0 means sweepEvery

	mu      sync.Mutex
	refused map[string]string // what was reported of each file; guarded by mu
	room    chan struct{}     // made under mu
}

// Sweep reclaims what all dead processes have left. It returns when all of it is settled, or ctx has
// ended.
func (r *Reclaimer) Sweep(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	return r.begin(ctx, &all)
}

// begin begins a sweep. What it finds is settled in the background, which all counts.
func (r *Reclaimer) begin(ctx context.Context, all *sync.WaitGroup) error {
	names, err := r.Dir.Names()
	if err != nil {
		return err
	}
	r.forget(names)
	for _, name := range names {
		if !r.enter(ctx) {
			return nil
		}
		c := r.claim(name)
		if c == nil {
			r.leave()
			continue
		}
		all.Go(func() {
			defer r.leave()
			r.settle(ctx, c)
		})
	}
	return nil
}

// claim returns a claim, or nil if there is no proof.
func (r *Reclaimer) claim(name string) *Claim {
	c, err := r.Dir.Claim(name)
	switch {
	case err == nil:
		return c
	case errors.Is(err, ErrAlive), errors.Is(err, fs.ErrNotExist):
	default:
		r.refuse(name, err)
	}
	return nil
}

// refuse reports a file that proves nothing, once.
func (r *Reclaimer) refuse(name string, err error) {
	r.mu.Lock()
	said := r.refused[name] == err.Error()
	if r.refused == nil {
		r.refused = make(map[string]string)
	}
	r.refused[name] = err.Error()
	r.mu.Unlock()
	if !said && r.Refused != nil {
		r.Refused(name, err)
	}
}

// forget drops what is known of files that are gone.
func (r *Reclaimer) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.refused, func(name, _ string) bool { return !slices.Contains(names, name) })
}

func (r *Reclaimer) settle(ctx context.Context, c *Claim) {
	after, err := c.Settle(ctx, r.Host, func(err error) {
		if r.Failing != nil {
			r.Failing(c.Left, err)
		}
	})
	switch {
	case errors.Is(err, ErrElsewhere):
		r.refuse(c.name, err)
	case after >= 0 && r.Reclaimed != nil:
		r.Reclaimed(c.Left, after, err)
	}
}

// enter waits for room for one more claim, each of which has a descriptor.
func (r *Reclaimer) enter(ctx context.Context) bool {
	r.mu.Lock()
	if r.room == nil {
		r.room = make(chan struct{}, Most)
	}
	room := r.room
	r.mu.Unlock()
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *Reclaimer) leave() { <-r.room }
