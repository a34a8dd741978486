package elect

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// eligibleEvery is how often a candidate that waits is asked whether it is still eligible.
const eligibleEvery = time.Second

// elected is the end of a campaign: either is nil.
type elected struct {
	t   *Term
	err error
}

// campaign returns the term that was won, if the candidate is eligible then. If it returns neither a
// term nor an error, the candidate is not eligible any more.
func (r *runner) campaign(ctx context.Context, e *Election) (*Term, error) {
	if r.opts.Eligible == nil {
		return e.campaign(ctx, "campaign", r.opts.Value, false, r.works)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	enqueued, end := make(chan struct{}), make(chan elected, 1)
	go func() { // ends with waiting at the latest; each return waits for it
		t, err := e.campaign(waiting, "campaign", r.opts.Value, false, func() { close(enqueued) })
		end <- elected{t, err}
	}()
	eligible := false
	var won elected
	defer func() { // also if Eligible panics
		if eligible {
			return
		}
		if cancel(); won == (elected{}) {
			won = <-end
		}
		r.decline(ctx, won.t)
	}()
	timer := time.NewTimer(eligibleEvery)
	defer timer.Stop()
	for {
		select {
		case <-enqueued:
			enqueued = nil
			r.works()
			continue
		case won = <-end:
		case <-timer.C:
			timer.Reset(backoff.Spread(eligibleEvery))
		}
		if won.err != nil {
			return nil, won.err
		}
		if !r.opts.Eligible(ctx) {
			return nil, nil
		}
		if won.t != nil {
			eligible = true
			return won.t, nil
		}
	}
}

// decline resigns a term that lead is not called for, so that the next candidate leads.
func (r *runner) decline(ctx context.Context, t *Term) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	_ = t.Resign(ctx) // what is not confirmed by then goes on in the background
}
