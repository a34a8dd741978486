// Package cleanup runs work that outlives the call that began it, such as the removal of what a failed
// acquisition may have left in etcd, or the revocation of a lost session's lease.
//
// Every public call returns soon after its context's end. What cannot be cleaned up by then is cleaned
// up in the background. A Group owns that work, so that closing the client waits for it, up to a limit,
// and can say what was left.
package cleanup

import (
	"context"
	"sync"
	"time"
)

// A Group is a set of jobs that end together. The zero Group is ready. It is safe for
// concurrent use.
type Group struct {
	mu     sync.Mutex
	jobs   map[*job]struct{}
	closed bool
	ctx    context.Context
	cancel context.CancelFunc
	idle   chan struct{} // closed when closed is set and no job is left
}

type job struct{ what string }

// Go runs f in a new goroutine, which ends when f returns. what is its name for Close. The context
// given to f is cancelled when Close stops waiting. After Close, Go does not run f and returns false.
func (g *Group) Go(what string, f func(ctx context.Context)) bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	g.start()
	j := &job{what: what}
	g.jobs[j] = struct{}{}
	ctx := g.ctx
	g.mu.Unlock()

	go func() { // ends with f; Close waits for it
		defer g.done(j)
		f(ctx)
	}()
	return true
}

// Close prevents further jobs, and waits for those under way, but no longer than wait. Then it cancels
// the contexts of those that remain, waits for them to return, and returns their names.
func (g *Group) Close(wait time.Duration) (left []string) {
	g.mu.Lock()
	g.start()
	if !g.closed {
		g.closed = true
		if len(g.jobs) == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-g.idle:
	case <-timer.C:
		g.mu.Lock()
		for j := range g.jobs {
			left = append(left, j.what)
		}
		g.mu.Unlock()
	}
	g.cancel()
	<-g.idle
	return left
}

// start makes the zero Group usable; g.mu is held.
func (g *Group) start() {
	if g.ctx == nil {
		g.ctx, g.cancel = context.WithCancel(context.Background())
		g.jobs = make(map[*job]struct{})
		g.idle = make(chan struct{})
	}
}

func (g *Group) done(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.jobs, j)
	if g.closed && len(g.jobs) == 0 {
		close(g.idle)
	}
}
