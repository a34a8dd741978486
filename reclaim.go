package pawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
)

// leavings are the files that a client's sessions leave in Config.ReclaimDir for the case of this process's
// death. Without a ReclaimDir it is nil, and does nothing.
type leavings struct {
	inherit   bool // processes that this one starts believe as well
	reclaimer func(*reclaim.Dir) *reclaim.Reclaimer

	mu      sync.Mutex
	dir     *reclaim.Dir
	sweeper *reclaim.Reclaimer           // of dir
	files   map[*session.Session]leaving // of the sessions that have not removed theirs
	swept   clock.Instant                // when the last sweep began
	warned  bool

	minding sync.WaitGroup // goroutines, one a file
	life    context.Context
	end     context.CancelFunc
}

// A leaving is a session's file.
type leaving struct {
	*reclaim.File
	removed chan struct{} // closed once it is, or cannot be
}

// openLeavings opens Config.ReclaimDir, if there is one.
func openLeavings(ctx context.Context, path string) (*leavings, error) {
	if path == "" {
		return nil, nil
	}
	ctx, cancel := diskWait(ctx)
	defer cancel()
	dir, err := reclaim.Await(ctx, func() (*reclaim.Dir, error) { return reclaim.Open(path) }, nil)
	if err != nil {
		return nil, fmt.Errorf("Config.ReclaimDir: %w", err)
	}
	l := &leavings{dir: dir, files: make(map[*session.Session]leaving)}
	l.life, l.end = context.WithCancel(context.Background())
	return l, nil
}

// diskWaits is how long a call waits for the file system. After that what a session leaves is late or
// missing, which costs others a TTL if this process is killed.
const diskWaits = 2 * time.Second

// diskWait is a context for waiting for the file system.
func diskWait(ctx context.Context) (context.Context, context.CancelFunc) {
	graced, stop := cluster.WithGrace(ctx, cluster.Grace)
	bound, cancel := context.WithTimeout(graced, diskWaits)
	return bound, func() { cancel(); stop() }
}

// close removes the files that are left, after all sessions have ended. It returns how many could not be
// removed in time.
func (l *leavings) close() (left int) {
	if l == nil {
		return 0
	}
	l.end()
	ctx, cancel := diskWait(context.Background())
	defer cancel()
	_, err := reclaim.Await(ctx, func() (struct{}, error) { l.minding.Wait(); return struct{}{}, nil }, nil)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.files)
	}
	return 0
}

// follow opens the directory that has the path now, if that is another one. Files in the one before stay
// there: a process that was forked before would not believe by a new one.
func (l *leavings) follow() (*reclaim.Reclaimer, error) {
	l.mu.Lock()
	dir, sweeper := l.dir, l.sweeper
	l.mu.Unlock()
	if !dir.Moved() {
		return sweeper, nil
	}
	dir, err := reclaim.Open(dir.Path())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dir, l.sweeper, l.warned = dir, l.reclaimer(dir), false
	return l.sweeper, nil
}

// publish leaves a file, in the directory that has the path now if the one that had it was removed.
func (l *leavings) publish(left reclaim.Left) (f *reclaim.File, err error) {
	for range 2 {
		l.mu.Lock()
		publish := l.dir.Publish
		if l.inherit {
			publish = l.dir.PublishFor
		}
		l.mu.Unlock()
		if f, err = publish(left); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if _, err := l.follow(); err != nil {
			return nil, err
		}
	}
	return f, err
}

// sweepWait is how long a new session waits until what dead processes have left is revoked.
const sweepWait = 2 * time.Second

// sweepPause is how long after a sweep new sessions begin none, so that a thousand sessions do not look at
// a thousand files each.
const sweepPause = time.Second

// sweep reclaims what dead processes have left. It waits for that until ctx ends, or for within. The rest
// is done in the background.
func (c *Client) sweep(ctx context.Context, within time.Duration) {
	if c.leaves == nil || !c.leaves.due() {
		return
	}
	swept := make(chan struct{})
	c.cleanup.Go("what dead processes have left", func(job context.Context) {
		defer close(swept)
		job, cancel := context.WithCancel(job)
		defer cancel()
		defer context.AfterFunc(c.life, cancel)() // a later sweep goes on
		sweeper, err := reclaim.Await(job, c.leaves.follow, nil)
		if err == nil {
			err = sweeper.Sweep(job)
		}
		if err != nil && job.Err() == nil {
			c.cluster.Logger().Warn("what dead processes have left cannot be found", "directory", c.cfg.ReclaimDir, "error", err)
		}
	})
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-swept:
	case <-ctx.Done():
	}
}

// sweepFor is how long a new session waits for a sweep: for half of the time until ctx ends at most. One that
// takes another's lease over waits for none, because nobody renews that lease meanwhile.
func sweepFor(ctx context.Context, opts lease.Options) time.Duration {
	if opts.Resume != (lease.Handle{}) {
		return 0
	}
	if deadline, ok := ctx.Deadline(); ok {
		return min(sweepWait, time.Until(deadline)/2)
	}
	return sweepWait
}

// due reports whether a sweep is due, which begins now.
func (l *leavings) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	if now.Sub(l.swept) < sweepPause {
		return false
	}
	l.swept = now
	return true
}

// reclaimer reports to the client's log and observer. All sweeps of a directory use the same one, which
// reports a file once.
func (c *Client) reclaimer(dir *reclaim.Dir) *reclaim.Reclaimer {
	log := c.cluster.Logger()
	return &reclaim.Reclaimer{
		Dir: dir, Host: c.host(),
		Reclaimed: func(l reclaim.Left, after time.Duration, err error) {
			switch {
			case errors.Is(err, lease.ErrTakenOver):
				log.Info("the lease of a dead process was taken over", "lease", fmt.Sprintf("%x", l.Lease), "owner", l.Owner)
				return
			case err != nil:
				log.Warn("what a dead process has left", "lease", fmt.Sprintf("%x", l.Lease), "error", err)
			}
			log.Info("the lease of a dead process is revoked", "lease", fmt.Sprintf("%x", l.Lease), "owner", l.Owner, "after", after)
			c.cluster.Notifier().NewSource().Later(context.Background(), observe.Reclaimed{Lease: l.Lease, Owner: l.Owner, After: after})
		},
		Failing: func(l reclaim.Left, err error) {
			log.Warn("the lease of a dead process is not revoked yet", "lease", fmt.Sprintf("%x", l.Lease), "error", err)
		},
		Refused: func(name string, err error) {
			log.Info("a file in Config.ReclaimDir proves nothing", "file", name, "error", err)
		},
	}
}

// leave publishes the file of a new session, before anybody has the session, and so before there is another
// key (rule RC1). A file that comes too late for that is removed.
func (c *Client) leave(ctx context.Context, s *session.Session, owner string) {
	l := c.leaves
	if l == nil {
		return
	}
	key, _ := s.Key()
	left := reclaim.Left{Remains: s.Remains(), Key: key, LockDelay: s.LockDelay(), Owner: owner}
	ctx, cancel := diskWait(ctx)
	defer cancel()
	f, err := reclaim.Await(ctx, func() (*reclaim.File, error) { return l.publish(left) }, func(f *reclaim.File) { _ = f.Remove() })
	if err != nil {
		c.warnOfFile("session leaves no file: if this process is killed, others wait until its lease expires", s, err)
		return
	}
	l.mu.Lock()
	l.files[s] = leaving{f, make(chan struct{})}
	l.mu.Unlock()
	l.minding.Go(func() { c.mind(s, f) }) // ends with the session, or with the client
}

// mind looks at a session's file at each renewal (rule RC6), and removes it once the session has ended and
// its revocation is decided. So a process that is killed meanwhile leaves it. A file system that stands still
// holds up this goroutine alone.
func (c *Client) mind(s *session.Session, f *reclaim.File) {
	defer c.remove(s)
	for backoff.Sleep(s.Context(), s.TTL()/8) {
		lost, err := f.Check()
		switch {
		case lost:
			s.Abandon(fmt.Errorf("%w: its file in Config.ReclaimDir is not locked by this process any more: restored from a checkpoint?", lease.ErrRevoked))
		case err != nil: // it may be there again, as after a moment without a free descriptor
			c.warnOfFile("session's file is lost: if this process is killed, others wait until its lease expires", s, err)
		}
	}
	_ = s.Close(c.leaves.life)
}

// warnOfFile warns once.
func (c *Client) warnOfFile(text string, s *session.Session, err error) {
	c.leaves.mu.Lock()
	first := !c.leaves.warned
	c.leaves.warned = true // until there is another directory
	c.leaves.mu.Unlock()
	if first {
		c.cluster.Logger().Warn(text, "lease", fmt.Sprintf("%x", s.ID()), "error", err)
	}
}

// remove removes the file of a session (rule RC5).
func (c *Client) remove(s *session.Session) {
	l := c.leaves
	l.mu.Lock()
	f := l.files[s]
	l.mu.Unlock()
	err := f.Remove()
	l.mu.Lock()
	delete(l.files, s)
	l.mu.Unlock()
	close(f.removed)
	if err != nil {
		c.cluster.Logger().Warn("session's file stays until this process ends", "lease", fmt.Sprintf("%x", s.ID()), "error", err)
	}
}

// awaitRemoval waits until the file of a session that has ended is removed.
func (c *Client) awaitRemoval(ctx context.Context, s *session.Session) {
	l := c.leaves
	if l == nil {
		return
	}
	l.mu.Lock()
	f, ok := l.files[s]
	l.mu.Unlock()
	if !ok {
		return
	}
	ctx, cancel := diskWait(ctx)
	defer cancel()
	select {
	case <-f.removed:
	case <-ctx.Done():
	}
}

func init() {
	hooks.Bequeath = func(v any) {
		if l := v.(*Client).leaves; l != nil {
			l.inherit = true
		}
	}
	hooks.ProofOf = func(v any) *os.File {
		s := v.(*Session)
		if s.none() || s.client.leaves == nil {
			return nil
		}
		l := s.client.leaves
		l.mu.Lock()
		f := l.files[s.engine]
		l.mu.Unlock()
		return f.Inherited()
	}
}
