package reclaim

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
)

// A Reclaimer reclaims what dead processes have left in a directory. Its functions are called from several
// goroutines, and may be nil. It is safe for concurrent use.
type Reclaimer struct {
	Dir  *Dir
	Host session.Host

	// Reclaimed is called for each lease that was settled here, so long after the proof of death. err is nil, or
	// matches lease.ErrTakenOver, or says why the file could not be removed.
	Reclaimed func(l Left, after time.Duration, err error)
	// Failing is called when the cluster does not settle a lease at once, which is tried again, and when this
	// client's user may not, once. Then the next sweep tries again.
	Failing func(l Left, err error)
	// Refused is called for each file that proves nothing, once.
	Refused func(name string, err error)

	every time.Duration // between looks at all files, for tests; 0 means sweepEvery

	walking atomic.Bool // somebody looks at all files

	mu   sync.Mutex
	said map[string]string // what was reported last of each file; guarded by mu
	room chan struct{}     // made under mu
}

// Sweep reclaims what all dead processes have left. It returns when all of it is settled, or ctx has
// ended.
func (r *Reclaimer) Sweep(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	return r.begin(ctx, &all)
}

// begin looks at all files, unless another call does. What is dead is settled in the background, which all
// counts. It returns when it has looked, or ctx has ended: a file system that stands still keeps the walk's
// goroutine, and nobody else.
func (r *Reclaimer) begin(ctx context.Context, all *sync.WaitGroup) error {
	if !r.walking.CompareAndSwap(false, true) {
		return nil
	}
	dead, walked := make(chan *Claim), make(chan error, 1)
	go func() { // ends with the walk
		defer r.walking.Store(false)
		walked <- r.walk(ctx, dead)
	}()
	for {
		select {
		case c := <-dead:
			all.Go(func() {
				defer r.leave()
				r.settle(ctx, c)
			})
		case err := <-walked:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// walk sends claims of what is dead, each with room.
func (r *Reclaimer) walk(ctx context.Context, dead chan<- *Claim) error {
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
		select {
		case dead <- c:
		case <-ctx.Done():
			c.LetGo()
			r.leave()
			return nil
		}
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
	if r.isNew(name, err) && r.Refused != nil {
		r.Refused(name, err)
	}
}

// isNew reports whether this is not what was said last of a file, and remembers it.
func (r *Reclaimer) isNew(name string, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said == nil {
		r.said = make(map[string]string)
	}
	was := r.said[name]
	r.said[name] = err.Error()
	return was != err.Error()
}

// forget drops what was said of files that are gone.
func (r *Reclaimer) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.said, func(name, _ string) bool { return !slices.Contains(names, name) })
}

func (r *Reclaimer) settle(ctx context.Context, c *Claim) {
	after, err := c.Settle(ctx, r.Host, func(err error) {
		if r.isNew(c.name, err) && r.Failing != nil {
			r.Failing(c.Left, err)
		}
	})
	switch {
	case errors.Is(err, ErrElsewhere):
		r.refuse(c.name, err)
	case errors.Is(err, session.ErrGone): // the process that reclaimed it reports that
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
