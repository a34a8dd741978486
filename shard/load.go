package shard

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-locks/pawl/internal/failing"
	"github.com/pawl-locks/pawl/internal/shards"
)

// measuring is what a runner does to learn the loads of its shards. Without Options.Load it does nothing.
type measuring struct {
	asking  bool // Load is being called
	asked   time.Time
	next    time.Time // when to ask again
	unknown int       // shards that had no load when they were asked for last
	trouble *failing.Report
}

// errBlocked says that Load does not return.
var errBlocked = errors.New("Options.Load has not returned for a TTL")

// measure asks for the loads of all shards that are held, in a goroutine of its own, so that a Load that
// blocks holds up nothing else.
func (r *runner) measure(now time.Time) {
	l := &r.loads
	switch {
	case r.w.Meter == nil:
		return
	case l.asking:
		if now.Sub(l.asked) > r.w.TTL {
			l.unknown = r.w.Held().Len()
			l.trouble.Failed("blocked", errBlocked)
		}
		return
	case now.Before(l.next):
		return
	}
	l.asking, l.asked, l.next = true, now, now.Add(r.w.Meter.Every())
	held, load, m := r.w.Held(), r.opts.Load, r.m
	go func() { // ends when Load has returned; part waits for that for a moment
		loads := map[int]float64{}
		var last error
		asked := false
		defer func() {
			if !asked {
				last = fmt.Errorf("Options.Load: %w", errExited)
			}
			r.post(func() { r.measured(m, held, loads, last) })
		}()
		for i := range held.All() {
			if x, err := ask(load, i); err != nil {
				last = err
			} else {
				loads[i] = x
			}
		}
		asked = true
	}()
}

// ask returns the load of one shard. A panic is an error.
func ask(load func(shard int) float64, i int) (x float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Options.Load panics for shard %d: %v", i, p)
		}
	}()
	if x = load(i); !(x >= 0) || math.IsInf(x, 1) {
		err = fmt.Errorf("Options.Load returns %v for shard %d", x, i)
	}
	return x, err
}

// measured processes the loads of the shards that were held when m was the member. err is why the last of
// those that are missing is.
func (r *runner) measured(m *member, held shards.Set, loads map[int]float64, err error) {
	l := &r.loads
	l.asking, l.unknown = false, held.Len()-len(loads)
	if err != nil {
		l.trouble.Failed("load", err)
	} else {
		l.trouble.Works()
	}
	if r.m == m && m != nil && !m.ended {
		r.w.Meter.Sampled(time.Now(), held.And(r.w.Held()), loads)
	}
}

// awaitLoad waits until Load has returned, for a moment at most.
func (r *runner) awaitLoad() {
	late := time.NewTimer(partWait)
	defer late.Stop()
	for r.loads.asking {
		select {
		case <-r.news:
			r.process()
		case <-late.C:
			return
		}
	}
}
