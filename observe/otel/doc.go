// Package otel shows what pawl's locks, elections and sessions do as OpenTelemetry
// spans and metrics.
//
//	traces, err := otel.New(otel.Options{}) // the global providers
//	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: endpoints, Observer: traces})
//
// One Observer serves any number of clients.
//
// # Spans
//
// They are children of the span in the context that was given to Acquire, Campaign
// or Resume:
//
//	pawl.acquire   from the call until it was held or gave up
//	pawl.hold      from then until it was released or lost
//	pawl.campaign  from the call until it leads or gave up
//	pawl.term      from then until it resigned or lost; events: proclaimed
//
// Their attributes are pawl.name, pawl.key, pawl.token, pawl.lease, pawl.mode, and pawl.how or
// pawl.cause. If several names are locked at once, pawl.names has them all, and pawl.name is the
// first. One that gave up or was lost has the status Error and the error, except a TryAcquire that
// found the lock busy, which is a normal result. While a session is in jeopardy, the spans of what
// is held on it get the event "session in jeopardy".
//
// A hold's span is not the parent of the work's, because the work gets the caller's context.
//
// # Metrics
//
//	pawl.wait.duration           s   histogram  pawl.kind, pawl.mode, pawl.how
//	pawl.hold.duration           s   histogram  pawl.kind, pawl.mode
//	pawl.progress.age            s   gauge      since the last progress, of the worst hold with a Stall
//	pawl.lost                        counter    pawl.kind, pawl.mode, pawl.cause
//	pawl.gave_up                     counter    pawl.kind, pawl.mode, pawl.cause
//	pawl.waiting                     up-down    pawl.kind, pawl.mode
//	pawl.held                        up-down    pawl.kind, pawl.mode
//	pawl.renewal.duration        s   histogram  pawl.member
//	pawl.renewals.hedged             counter    pawl.member
//	pawl.session.validity        s   gauge      the least of all sessions, when it is collected
//	pawl.sessions                    up-down
//	pawl.sessions.in_jeopardy        counter
//	pawl.sessions.over               counter    pawl.cause
//	pawl.leases.reclaimed            counter
//	pawl.member.switches             counter    pawl.member
//	pawl.fenced                      counter
//	pawl.job.late.duration       s   histogram  of Mutex.Every's runs, as the next two
//	pawl.job.runs                    counter    pawl.result
//	pawl.job.skipped                 counter
//	pawl.shards                      up-down
//	pawl.shards.over                 counter    pawl.cause: moved, left, failed, lost
//	pawl.shard.handover.duration s   histogram
//	pawl.shards.unowned              gauge      the most of any name, as counted last
//	pawl.shards.unplanned        s   gauge      the longest of any name, as counted last
//	pawl.shards.load                 gauge      of this process's shards, with shard.Options.Load
//	pawl.shards.unmeasured           gauge      of this process's, for which that returned no load
//
// pawl.kind is lock or election. pawl.mode is exclusive, shared or semaphore. pawl.cause is one of a few
// words, listed in observe/prom. pawl.result is ok or failed. Names of locks are on spans only.
package otel
