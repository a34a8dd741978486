package otel

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-locks/pawl/internal/cause"
	"github.com/pawl-locks/pawl/observe"
)

// kind is what differs between the spans and metrics of locks and of elections.
type kind struct {
	wait, hold string // names of spans
	attribute  attribute.KeyValue
}

// of returns the attributes of c's metrics, and more.
func (k kind) of(c observe.Acquisition, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(more, k.attribute, mode(c))...)
}

func mode(c observe.Acquisition) attribute.KeyValue {
	return attribute.String("pawl.mode", string(cmp.Or(c.Mode, observe.Exclusive)))
}

var (
	aLock      = kind{"pawl.acquire", "pawl.hold", attribute.String("pawl.kind", "lock")}
	anElection = kind{"pawl.campaign", "pawl.term", attribute.String("pawl.kind", "election")}
)

func member(endpoint string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("pawl.member", endpoint))
}

func because(err error) attribute.KeyValue { return attribute.String("pawl.cause", cause.Of(err)) }

func result(err error) attribute.KeyValue {
	if err != nil {
		return attribute.String("pawl.result", "failed")
	}
	return attribute.String("pawl.result", "ok")
}

func text(err error) attribute.KeyValue { return attribute.String("error", err.Error()) }

func attributes(c observe.Acquisition) trace.SpanStartEventOption {
	all := []attribute.KeyValue{
		attribute.String("pawl.name", valid(c.Name)), attribute.String("pawl.key", valid(c.Key)),
		attribute.Int64("pawl.token", int64(c.Token)), attribute.String("pawl.lease", strconv.FormatInt(c.Lease, 16)), mode(c),
	}
	if len(c.Names) > 0 {
		names := make([]string, len(c.Names))
		for i, name := range c.Names {
			names[i] = valid(name)
		}
		all = append(all, attribute.StringSlice("pawl.names", names))
	}
	if c.Mode == observe.Semaphore && c.Slot >= 0 {
		all = append(all, attribute.Int("pawl.slot", c.Slot))
	}
	return trace.WithAttributes(all...)
}

// valid is s as UTF-8. A name may be any bytes, and an exporter that uses protobuf would refuse a
// whole batch because of one that is not UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// fail gives a span the status of err.
func fail(s trace.Span, err error) {
	s.SetAttributes(because(err))
	s.RecordError(err)
	s.SetStatus(codes.Error, err.Error())
}

func (o *Observer) enqueued(ctx context.Context, k kind, c observe.Acquisition) {
	o.mu.Lock()
	o.waiting[c.ID] = true
	o.mu.Unlock()
	o.inLine.Add(ctx, 1, k.of(c))
}

// left removes an acquisition from the waiting ones.
func (o *Observer) left(ctx context.Context, k kind, c observe.Acquisition) {
	o.mu.Lock()
	waited := o.waiting[c.ID]
	delete(o.waiting, c.ID)
	o.mu.Unlock()
	if waited {
		o.inLine.Add(ctx, -1, k.of(c))
	}
}

// waited makes the span of a wait that ends now.
func (o *Observer) waited(ctx context.Context, k kind, c observe.Acquisition, wait time.Duration) trace.Span {
	_, s := o.tracer.Start(ctx, k.wait, trace.WithTimestamp(time.Now().Add(-wait)), attributes(c))
	return s
}

func (o *Observer) won(ctx context.Context, k kind, c observe.Acquisition, how observe.How, wait time.Duration) {
	o.left(ctx, k, c)
	as := attribute.String("pawl.how", string(how))
	o.wait.Record(ctx, wait.Seconds(), k.of(c, as))
	o.held.Add(ctx, 1, k.of(c))
	s := o.waited(ctx, k, c, wait)
	s.SetAttributes(as)
	s.End()
	_, hold := o.tracer.Start(ctx, k.hold, attributes(c))
	hold.SetAttributes(as)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans[c.ID] = span{Span: hold, lease: c.Lease}
}

func (o *Observer) gaveUp(ctx context.Context, k kind, c observe.Acquisition, wait time.Duration, err error) {
	o.left(ctx, k, c)
	o.failed.Add(ctx, 1, k.of(c, because(err)))
	s := o.waited(ctx, k, c, wait)
	defer s.End()
	if cause.Of(err) == "busy" {
		s.SetAttributes(because(err)) // the normal result of a TryAcquire
		return
	}
	fail(s, err)
}

func (o *Observer) over(ctx context.Context, k kind, c observe.Acquisition, held time.Duration, lost, pending error) {
	o.hold.Record(ctx, held.Seconds(), k.of(c))
	o.held.Add(ctx, -1, k.of(c))
	if lost != nil {
		o.lost.Add(ctx, 1, k.of(c, because(lost)))
	}
	o.mu.Lock()
	s, ok := o.spans[c.ID]
	delete(o.spans, c.ID)
	o.mu.Unlock()
	if !ok {
		return
	}
	defer s.End()
	switch {
	case lost != nil:
		fail(s, lost)
	case pending != nil:
		s.AddEvent("release pending", trace.WithAttributes(text(pending)))
	}
}

// progressed records when the time without progress of a hold began anew.
func (o *Observer) progressed(ev observe.Progressed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.spans[ev.ID]; ok {
		if s.progress = time.Now(); ev.Stall == 0 {
			s.progress = time.Time{}
		}
		o.spans[ev.ID] = s
	}
}

// idle is the longest time without progress. It returns false if none counts.
func (o *Observer) idle() (longest time.Duration, any bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.spans {
		if !s.progress.IsZero() {
			longest, any = max(longest, time.Since(s.progress)), true
		}
	}
	return longest, any
}

func (o *Observer) proclaimed(ev observe.TermProclaimed) {
	o.mu.Lock()
	s, ok := o.spans[ev.ID]
	o.mu.Unlock()
	switch {
	case !ok: // the term had ended
	case ev.Err != nil:
		s.AddEvent("proclaim failed", trace.WithAttributes(text(ev.Err)))
	default:
		s.AddEvent("proclaimed")
	}
}

// warn marks the spans of what is held on a session in jeopardy.
func (o *Observer) warn(ev observe.SessionInJeopardy) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.spans {
		if s.lease == ev.Lease {
			s.AddEvent("session in jeopardy", trace.WithAttributes(attribute.Float64("pawl.left_seconds", ev.Left.Seconds())))
		}
	}
}
