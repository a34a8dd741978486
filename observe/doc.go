// Package observe shows a program what its locks, elections and sessions do. Give an Observer to
// pawl.Config.Observer, and it is called with an Event for each thing that happens.
//
//	client, err := pawl.Dial(ctx, pawl.Config{
//		Endpoints: endpoints,
//		Observer: observe.Func(func(ctx context.Context, ev observe.Event) {
//			switch ev := ev.(type) {
//			case observe.LockLost:
//				alarm(ev.Name, ev.Err)
//			case observe.SessionInJeopardy:
//				warn(ev.Lease, ev.Left)
//			}
//		}),
//	})
//
// The modules observe/prom and observe/otel are Observers for Prometheus and for
// OpenTelemetry. All makes one Observer of several.
//
// # What it guarantees
//
//  1. An Observer is never called while a mutex of the library is held. It may
//     call any method of a session, a lock or a term. It must not call
//     Client.Close, which waits for it.
//  2. The events of one session come in order and one at a time. So do those of one acquisition of
//     a lock, those of one campaign with its term, and those of one call of shard.Run, except its
//     plans. Events of different ones come in any order, and at the same time.
//  3. The goroutine of a call delivers the events of that call, before the call returns: enqueued,
//     acquired, gave up, released, elected, proclaimed, resigned, fenced. (If another goroutine is
//     delivering an event of the same acquisition, that goroutine delivers this event too.) The
//     goroutine of shard.Run delivers the events of shards, and the goroutine that plans delivers
//     those of plans. One goroutine of the client delivers everything else, and every loss. So a
//     slow Observer delays those calls, but never a renewal, nor the report of a loss, nor the
//     result of Err, which only depends on the clock.
//  4. LockEnqueued is followed by LockAcquired or LockGaveUp. LockAcquired is followed by exactly
//     one LockReleased or LockLost. Likewise in elections. SessionGranted is followed by
//     SessionLost or SessionClosed, after which no Session event of that session comes.
//  5. An Observer that panics breaks nothing. The panic is logged, with Config.Logger, and the
//     event counts as delivered.
//  6. Client.Close returns once every event of the client was delivered. Afterwards only calls that
//     are still under way, or begin then, deliver events of their failure.
//
// # What it does not
//
// An Observer that does not return is not abandoned. Its goroutine, and Client.Close, wait for it.
// Meanwhile up to 256 events of one session or lock are kept, and then only the latest of further
// ones.
//
// Events hold names, keys and fencing tokens. They never hold a password, an
// authentication token or a value.
//
// Without an Observer all of this costs no request, no allocation and no goroutine.
package observe
