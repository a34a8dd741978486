package otel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe/otel"
	"github.com/pawl-locks/pawl/test/pawltest"
)

func Example() {
	t := exampletb.Begin() // in a test, its own *testing.T
	defer t.End()
	cluster := pawltest.New(t) // in production, a real one and pawl.Dial
	ctx := context.Background()

	spans := tracetest.NewSpanRecorder() // in production, an exporter
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	observer, err := otel.New(otel.Options{TracerProvider: provider})
	if err != nil {
		fmt.Println(err)
		return
	}
	session, err := cluster.Client(t, pawl.Config{Observer: observer}).Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, job := provider.Tracer("jobs").Start(ctx, "nightly")
	err = lock.New(session, "nightly", lock.Options{}).Do(ctx, func(context.Context, *lock.Held) error { return nil })
	job.End()
	fmt.Println(err)
	for _, s := range spans.Ended() {
		fmt.Println(s.Name(), s.Parent().SpanID() == job.SpanContext().SpanID())
	}
	// Output:
	// <nil>
	// pawl.acquire true
	// pawl.hold true
	// nightly false
}
