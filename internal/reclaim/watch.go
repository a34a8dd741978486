package reclaim

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// An Ending is what a Watch has seen.
type Ending struct {
	Name string // of the file whose last reference goes
	All  bool   // files may have lost theirs unseen
	Gone bool   // the directory was removed or renamed, or its file system is gone
}

// ErrGone is the error of Run for a directory that was removed.
var ErrGone = errors.New("the directory is gone")

// sweepEvery is how often Run looks at all files, for what no event has shown: a file that somebody else
// had locked when its event came. It is also how long a directory that was removed can go unnoticed: the
// kernel reports that when the last process has closed it.
const sweepEvery = 10 * time.Second

// Run reclaims what dead processes have left, and what processes leave that die from now on, until ctx ends
// or the directory is gone. ready is called once it has seen all that was there.
func (r *Reclaimer) Run(ctx context.Context, ready func()) error {
	w, err := r.Dir.Watch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var under sync.WaitGroup
	defer under.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	defer func() { _ = w.Close() }()
	ended, endings := make(chan error, 1), make(chan Ending)
	under.Go(func() { ended <- w.all(ctx, endings) })
	if err := r.begin(ctx, &under); err != nil {
		return err
	}
	ready()
	tick := time.NewTicker(cmp.Or(r.every, sweepEvery))
	defer tick.Stop()
	for {
		var e Ending
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case e = <-endings:
		case <-tick.C:
			e.All = true
		}
		switch {
		case e.Gone:
			return ErrGone
		case e.All:
			if err := r.begin(ctx, &under); err != nil {
				return err
			}
		default:
			under.Go(func() { r.await(ctx, e.Name) })
		}
	}
}

// all sends what w sees, until ctx ends.
func (w *Watch) all(ctx context.Context, to chan<- Ending) error {
	for {
		seen, err := w.Next()
		if err != nil {
			return err
		}
		for _, e := range seen {
			select {
			case to <- e:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// goesWithin is for how long await tries. The kernel reports the end of the last reference a moment before
// it frees the lock.
const goesWithin = 2 * time.Second

// await reclaims a file whose last reference goes.
func (r *Reclaimer) await(ctx context.Context, name string) {
	if !r.enter(ctx) {
		return
	}
	defer r.leave()
	trying, cancel := context.WithTimeout(ctx, goesWithin)
	defer cancel()
	for wait := (backoff.Backoff{First: 200 * time.Microsecond, Most: 50 * time.Millisecond}); ; {
		c, err := Await(ctx, func() (*Claim, error) { return r.Dir.Claim(name) }, (*Claim).LetGo)
		switch {
		case err == nil:
			r.settle(ctx, c)
			return
		case errors.Is(err, fs.ErrNotExist), ctx.Err() != nil:
			return
		case !errors.Is(err, ErrAlive):
			r.refuse(name, err)
			return
		case !wait.Sleep(trying):
			return
		}
	}
}
