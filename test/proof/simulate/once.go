package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// jobs are the calls of Once.
type jobs struct {
	mu  sync.Mutex
	all []*job
}

// job is a call of Once.
type job struct {
	client      int
	name        string
	at          time.Time
	call        time.Duration
	began, done time.Duration // when its function was called, or -1, and when Once returned
	ran         bool
	err         error
}

func (j *job) String() string {
	return fmt.Sprintf("once %q for %v by %d: ran %t [%v, %v], began at %v: %v", j.name, j.at.Format(time.TimeOnly), j.client, j.ran, j.call, j.done, j.began, j.err)
}

// check returns what the calls did that they may not have done. A run that is recorded is not repeated, for
// its time and for every earlier one; with recordFirst no run begins twice. A call that says that somebody
// else has run is right.
func (js *jobs) check(recordFirst bool) (bad []string) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.all {
		if j.ran != (j.began >= 0) {
			bad = append(bad, "ran is wrong: "+j.String())
		}
		known := false // to somebody, that there is a run for it
		for _, other := range js.all {
			if other == j || other.name != j.name || other.began < 0 || other.at.Before(j.at) {
				continue
			}
			known = known || other.began <= j.done
			switch {
			case j.began < 0:
			case other.err == nil && other.done < j.began, recordFirst && other.began < j.began:
				bad = append(bad, fmt.Sprintf("%v, after %v", j, other))
			}
		}
		if !j.ran && j.err == nil && !known {
			bad = append(bad, "nobody has run it: "+j.String())
		}
	}
	return bad
}

// once runs a job now and then, which is due twice in a TTL, at the same times for all clients. It reports whether it did.
func (a *actor) once() bool {
	w := a.wants[0]
	if !a.w.plan.Once || a.calm || len(a.wants) > 1 || w.limit > 0 || w.shared || a.r.IntN(2) > 0 {
		return false
	}
	j := &job{client: a.number, name: w.name, at: time.Now().Truncate(a.w.plan.TTL / 2), call: a.w.rec.Now(), began: -1}
	limit := a.patience()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var held *lock.Held
	var ended time.Duration // when the function returned
	j.ran, j.err = lock.New(a.sess, w.name, a.opts).Once(ctx, j.at, func(_ context.Context, h *lock.Held) error {
		held, j.began = h, a.w.rec.Now()
		a.add(a.wants, history.Op{Client: a.number, Kind: history.Acquire, Token: int64(h.Token()), Call: j.call, Return: j.began, Outcome: history.OK})
		a.w.truth.agreed(a.wants, h, a.opts)
		a.work(h)
		ended = a.w.rec.Now()
		return nil
	})
	j.done = a.w.rec.Now()
	a.w.jobs.mu.Lock()
	a.w.jobs.all = append(a.w.jobs.all, j)
	a.w.jobs.mu.Unlock()
	o := history.Op{Client: a.number, Kind: history.Other, Call: j.call, Return: j.done, Limit: max(j.call+limit, ended), Outcome: verdict(j.err)}
	if held != nil {
		o.Kind, o.Token, o.Call = history.Release, int64(held.Token()), ended
		switch {
		case errors.Is(j.err, lock.ErrLost):
			o.Outcome = history.Refused
		case j.err != nil:
			o.Outcome = history.Unknown // of the record, or of the release
		}
	}
	a.add(a.wants, o)
	return true
}
