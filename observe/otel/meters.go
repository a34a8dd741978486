package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pawl-locks/pawl/observe"
)

// meters are the metrics.
type meters struct {
	wait, hold, renewal, late      metric.Float64Histogram
	lost, failed, hedged, jeopardy metric.Int64Counter
	sessionsOver, switches, fenced metric.Int64Counter
	runs, skipped, reclaimed       metric.Int64Counter
	inLine, held, sessionsValid    metric.Int64UpDownCounter

	shards     metric.Int64UpDownCounter
	shardsOver metric.Int64Counter
	handover   metric.Float64Histogram
}

// The buckets of the histograms, in seconds.
var (
	trips = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
	long  = metric.WithExplicitBucketBoundaries(.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4*3600, 24*3600)
)

// newMeters makes the metrics. least returns the least remaining validity, idle the longest time without
// progress, and counted what runs of shards have counted last.
func newMeters(m metric.Meter, least, idle func() (time.Duration, bool), counted func() (worst observe.ShardsCounted, any bool)) (ms meters, err error) {
	var errs []error
	histogram := func(name, help string, bounds metric.HistogramOption) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit("s"), bounds)
		errs = append(errs, err)
		return h
	}
	counter := func(name, help string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithDescription(help))
		errs = append(errs, err)
		return c
	}
	upDown := func(name, help string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithDescription(help))
		errs = append(errs, err)
		return c
	}
	ms = meters{
		wait:    histogram("pawl.wait.duration", "Time from the call until it was held.", long),
		hold:    histogram("pawl.hold.duration", "Time for which it was held.", long),
		renewal: histogram("pawl.renewal.duration", "Time of a renewal and of the read that confirms it.", trips),

		lost:         counter("pawl.lost", "Locks and terms that were lost."),
		failed:       counter("pawl.gave_up", "Acquisitions and campaigns that failed."),
		hedged:       counter("pawl.renewals.hedged", "Renewals that this member had not answered when they were also sent to another."),
		jeopardy:     counter("pawl.sessions.in_jeopardy", "How often less than half of a session's validity was left."),
		reclaimed:    counter("pawl.leases.reclaimed", "Leases of dead processes that this one had revoked."),
		sessionsOver: counter("pawl.sessions.over", "Sessions that have ended."),
		switches:     counter("pawl.member.switches", "How often a member failed, so that others are used first."),
		fenced:       counter("pawl.fenced", "Transactions of kv that a guard refused."),

		late:    histogram("pawl.job.late.duration", "Time from the scheduled time of a job until it was called.", long),
		runs:    counter("pawl.job.runs", "Runs of Mutex.Every's function."),
		skipped: counter("pawl.job.skipped", "Scheduled times that nobody has run, and nobody will."),

		inLine:        upDown("pawl.waiting", "Acquisitions and campaigns that wait in a queue."),
		held:          upDown("pawl.held", "Locks held and elections led."),
		sessionsValid: upDown("pawl.sessions", "Sessions that are valid."),

		shards:     upDown("pawl.shards", "Shards that this process works on."),
		shardsOver: counter("pawl.shards.over", "Shards that this process has given up or lost."),
		handover:   histogram("pawl.shard.handover.duration", "Time from ErrMoved until work had returned.", long),
	}
	unowned, err := m.Float64ObservableGauge("pawl.shards.unowned", metric.WithDescription("Shards that nobody works on, as this process has counted last."))
	errs = append(errs, err)
	unplanned, err := m.Float64ObservableGauge("pawl.shards.unplanned", metric.WithUnit("s"),
		metric.WithDescription("For how long a worker that came has waited for a plan, as this process has counted last."))
	errs = append(errs, err)
	load, err := m.Float64ObservableGauge("pawl.shards.load", metric.WithDescription("The load of the shards that this process works on, as shard.Options.Load measures it."))
	errs = append(errs, err)
	unmeasured, err := m.Float64ObservableGauge("pawl.shards.unmeasured", metric.WithDescription("Shards that this process works on, and for which shard.Options.Load returned no load."))
	errs = append(errs, err)
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if worst, any := counted(); any {
			o.ObserveFloat64(unowned, float64(worst.Unowned))
			o.ObserveFloat64(unplanned, worst.Unplanned.Seconds())
			o.ObserveFloat64(load, worst.Load)
			o.ObserveFloat64(unmeasured, float64(worst.Unmeasured))
		}
		return nil
	}, unowned, unplanned, load, unmeasured)
	errs = append(errs, err)
	_, err = m.Float64ObservableGauge("pawl.session.validity", metric.WithUnit("s"),
		metric.WithDescription("How long the session that has the least left is valid, unless it is renewed."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			if left, any := least(); any {
				o.Observe(left.Seconds())
			}
			return nil
		}))
	errs = append(errs, err)
	_, err = m.Float64ObservableGauge("pawl.progress.age", metric.WithUnit("s"),
		metric.WithDescription("How long the hold with a Stall that has made no progress for longest has made none."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			if age, any := idle(); any {
				o.Observe(age.Seconds())
			}
			return nil
		}))
	return ms, errors.Join(append(errs, err)...)
}
