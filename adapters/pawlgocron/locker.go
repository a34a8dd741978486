package pawlgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
)

// LockerOptions are the options of a Locker. The zero value is the default.
type LockerOptions struct {
	// Prefix and a job's name make the lock's name. "" means "gocron/".
	Prefix string
	// AtLeast keeps a job's lock taken for at least that long, even if the job ends earlier. It
	// should be more than the difference between the schedulers' clocks, and less than the time
	// between two firings, because a firing that comes meanwhile is skipped. 0 means no longer than
	// the job runs.
	AtLeast time.Duration
	// MaxHold ends the lock of a job that runs for longer, so that another scheduler may run it. 0
	// means never.
	MaxHold time.Duration
}

// A Locker is a gocron.Locker. It locks by the name of the job, so give each job its own name,
// with gocron.WithName, the same on all schedulers. Its methods are safe for concurrent use.
type Locker struct {
	sessions pawl.Sessions
	opts     LockerOptions

	mu   sync.Mutex
	held map[string]*lock.Held // by job, the latest run of this scheduler
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker makes a Locker; it does no I/O. With a *pawl.Client it outlives lost sessions. With a
// pawl.Clusters, pass one of its Clients: gocron chooses the names, and all schedulers use one cluster.
func NewLocker(s pawl.Sessions, opts LockerOptions) *Locker {
	if opts.Prefix == "" {
		opts.Prefix = "gocron/"
	}
	return &Locker{sessions: s, opts: opts, held: map[string]*lock.Held{}}
}

// Lock does not wait. If another scheduler runs the job, the error matches lock.ErrBusy, and
// gocron, which calls it before a run, skips the run.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	m := lock.New(l.sessions, l.opts.Prefix+job, lock.Options{AtLeast: l.opts.AtLeast, MaxHold: l.opts.MaxHold})
	h, err := m.TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[job] = h
	return &run{locker: l, job: job, held: h}, nil
}

// ErrNotRunning is the error of Context for a job that holds no lock here.
var ErrNotRunning = errors.New("the job is not running under a lock here")

// Context is for a run of a job that is under way. It returns a child of ctx that carries the
// fencing token and is cancelled, with the cause, when the lock is lost. Call cancel when the work
// is done. The error matches lock.ErrLost if the lock is lost already.
func (l *Locker) Context(ctx context.Context, job string) (_ context.Context, cancel context.CancelFunc, err error) {
	l.mu.Lock()
	h := l.held[job]
	l.mu.Unlock()
	if h == nil {
		return nil, nil, fmt.Errorf("gocron: %q: %w", job, ErrNotRunning)
	}
	return within(ctx, h)
}

// A run holds the lock of one run of a job.
type run struct {
	locker *Locker
	job    string
	held   *lock.Held
}

// Unlock releases the lock. gocron calls it after a run.
func (r *run) Unlock(ctx context.Context) error {
	r.locker.mu.Lock()
	if r.locker.held[r.job] == r.held {
		delete(r.locker.held, r.job)
	}
	r.locker.mu.Unlock()
	return r.held.Release(ctx)
}
