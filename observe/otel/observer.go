package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-locks/pawl/observe"
)

// scope is the name of the instrumentation.
const scope = "github.com/pawl-locks/pawl/observe/otel"

// Options are the options of an Observer. The zero value is the default.
type Options struct {
	TracerProvider trace.TracerProvider // the global one if nil
	MeterProvider  metric.MeterProvider // the global one if nil
}

// An Observer is an observe.Observer. Its methods are safe for concurrent use.
type Observer struct {
	tracer trace.Tracer
	meters

	mu       sync.Mutex
	spans    map[int64]span                 // of held locks and terms, by the ID of the acquisition
	waiting  map[int64]bool                 // acquisitions in a queue
	sessions map[int64]func() time.Duration // remaining validity of valid ones, by lease
	counted  map[run]observe.ShardsCounted  // by runs of shards that have not left
}

// A run is a call of shard.Run.
type run struct {
	name  string
	lease int64
}

// A span is the span of a hold or a term.
type span struct {
	trace.Span
	lease    int64
	progress time.Time // the last, if it has a Stall that counts; otherwise zero
}

// New makes an Observer. The error is the MeterProvider's.
func New(opts Options) (*Observer, error) {
	if opts.TracerProvider == nil {
		opts.TracerProvider = otel.GetTracerProvider()
	}
	if opts.MeterProvider == nil {
		opts.MeterProvider = otel.GetMeterProvider()
	}
	o := &Observer{
		tracer: opts.TracerProvider.Tracer(scope),
		spans:  make(map[int64]span), waiting: make(map[int64]bool), sessions: make(map[int64]func() time.Duration),
		counted: make(map[run]observe.ShardsCounted),
	}
	var err error
	o.meters, err = newMeters(opts.MeterProvider.Meter(scope), o.least, o.idle, o.worst)
	return o, err
}

// Observe implements observe.Observer.
func (o *Observer) Observe(ctx context.Context, ev observe.Event) {
	switch ev := ev.(type) {
	case observe.LockEnqueued:
		o.enqueued(ctx, aLock, ev.Acquisition)
	case observe.LockAcquired:
		o.won(ctx, aLock, ev.Acquisition, ev.How, ev.Wait)
	case observe.LockGaveUp:
		o.gaveUp(ctx, aLock, ev.Acquisition, ev.Wait, ev.Err)
	case observe.LockReleased:
		o.over(ctx, aLock, ev.Acquisition, ev.Held, nil, ev.Pending)
	case observe.LockLost:
		o.over(ctx, aLock, ev.Acquisition, ev.Held, ev.Err, nil)
	case observe.CampaignEnqueued:
		o.enqueued(ctx, anElection, ev.Acquisition)
	case observe.TermElected:
		o.won(ctx, anElection, ev.Acquisition, ev.How, ev.Wait)
	case observe.CampaignGaveUp:
		o.gaveUp(ctx, anElection, ev.Acquisition, ev.Wait, ev.Err)
	case observe.TermEnded:
		o.over(ctx, anElection, ev.Acquisition, ev.Led, ev.Err, ev.Pending)
	case observe.TermProclaimed:
		o.proclaimed(ev)
	case observe.Progressed:
		o.progressed(ev)
	default:
		o.observeSession(ctx, ev)
	}
}

// observeSession processes the events of sessions, members, schedules and writes.
func (o *Observer) observeSession(ctx context.Context, ev observe.Event) {
	switch ev := ev.(type) {
	case observe.SessionGranted:
		o.sessionsValid.Add(ctx, 1)
		o.mu.Lock()
		o.sessions[ev.Lease] = ev.Left
		o.mu.Unlock()
	case observe.SessionRenewed:
		o.renewal.Record(ctx, ev.RoundTrip.Seconds(), member(ev.Member))
	case observe.SessionHedged:
		o.hedged.Add(ctx, 1, member(ev.Slow))
	case observe.SessionInJeopardy:
		o.jeopardy.Add(ctx, 1)
		o.warn(ev)
	case observe.SessionLost:
		o.ended(ctx, ev.Lease, ev.Err)
	case observe.SessionClosed:
		o.ended(ctx, ev.Lease, ev.Err)
	case observe.Reclaimed:
		o.reclaimed.Add(ctx, 1)
	case observe.MemberSwitched:
		o.switches.Add(ctx, 1, member(ev.From))
	case observe.JobRan:
		o.late.Record(ctx, ev.Late.Seconds())
		o.skipped.Add(ctx, int64(ev.Skipped))
		o.runs.Add(ctx, 1, metric.WithAttributes(result(ev.Err)))
	case observe.WriteFenced:
		o.fenced.Add(ctx, 1)
		trace.SpanFromContext(ctx).AddEvent("write fenced", trace.WithAttributes(text(ev.Err)))
	default:
		o.observeShards(ctx, ev)
	}
}

// observeShards processes the events of shards.
func (o *Observer) observeShards(ctx context.Context, ev observe.Event) {
	switch ev := ev.(type) {
	case observe.ShardHeld:
		o.shards.Add(ctx, 1)
	case observe.ShardEnded:
		o.shards.Add(ctx, -1)
		o.shardsOver.Add(ctx, 1, metric.WithAttributes(attribute.String("pawl.cause", string(ev.Why))))
		if ev.Took > 0 {
			o.handover.Record(ctx, ev.Took.Seconds())
		}
	case observe.ShardsCounted:
		o.mu.Lock()
		defer o.mu.Unlock()
		if of := (run{ev.Name, ev.Lease}); ev.Left {
			delete(o.counted, of)
		} else {
			o.counted[of] = ev
		}
	}
}

// worst is the most of what runs of shards have counted, and the sum of their loads. It returns false if
// none has counted.
func (o *Observer) worst() (w observe.ShardsCounted, any bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ev := range o.counted {
		w.Unowned, w.Unplanned = max(w.Unowned, ev.Unowned), max(w.Unplanned, ev.Unplanned)
		w.Load, w.Unmeasured, any = w.Load+ev.Load, w.Unmeasured+ev.Unmeasured, true
	}
	return w, any
}

func (o *Observer) ended(ctx context.Context, lease int64, err error) {
	o.sessionsValid.Add(ctx, -1)
	o.sessionsOver.Add(ctx, 1, metric.WithAttributes(because(err)))
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, lease)
}

// least is the least remaining validity of the sessions. It returns false if there is no session.
func (o *Observer) least() (least time.Duration, any bool) {
	o.mu.Lock()
	all := make([]func() time.Duration, 0, len(o.sessions))
	for _, left := range o.sessions {
		all = append(all, left)
	}
	o.mu.Unlock()
	for _, left := range all { // without the mutex, because this read can end a session
		if d := left(); d > 0 && (!any || d < least) {
			least, any = d, true
		}
	}
	return least, any
}
