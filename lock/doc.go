// Package lock acquires locks on etcd that report when they are lost, and that come with a fencing
// token.
//
//	m := lock.New(session, "jobs/42", lock.Options{})
//	err := m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
//		return store.Write(ctx, row, h.Token()) // refused there if the token is stale
//	})
//
// # What it guarantees
//
// Provided that none of the things below happened:
//
//  1. Exclusion: while a Held's Err is nil, nobody else can have acquired the
//     name, through pawl or, with Options.EtcdLayout, through clientv3's
//     concurrency.Mutex. Two goroutines on one session, or one Mutex, exclude each other as
//     two processes do. Shared acquisitions hold a name together, and a Semaphore has as many
//     holders as slots.
//  2. Order: waiters get the lock first come, first served. A waiter that gives
//     up, or dies, leaves the others' order unchanged. Shared acquisitions hold the lock
//     together, in the same order: one that came after a waiter for exclusive mode waits for
//     that waiter. A Semaphore's slots are also taken in order, one at a time.
//  3. Tokens: Held.Token is the create revision of Held.Key, and strictly greater
//     than that of every earlier exclusive holder of the name. An exclusive holder's is also
//     greater than that of every earlier shared one. Each of several shared holders has its own.
//     A Semaphore's is greater than that of every earlier holder of its slot.
//  4. Loss is reported: a lock is lost once the session has ended, somebody else has deleted or
//     overwritten the key, or it was held for longer than Options.MaxHold, or without Progress for
//     longer than Options.Stall, allows. Then Err returns one final cause, the Context is cancelled with it, and Done is closed. Err compares the clock
//     at the call, so after a pause of any length it is right at the first call.
//  5. Either the error or the Held is nil. After any error the acquisition's queue key is
//     deleted in the background. Until then it blocks others, or until its lease ends if etcd
//     cannot be reached. A Release that returns nil released a lock that was held until then, and
//     nobody else had written to the key.
//  6. Every call returns within its context's end plus 100 ms. Do, DoShared, Once and Every wait
//     for the function first.
//  7. A lock costs no goroutine and no timer of its own.
//
// # What it does not
//
// No client can rule out these events:
//
//   - An operator deletes the key, or the server revokes a living lease.
//   - A restore, or the loss of most members, takes the cluster back.
//   - A machine is frozen together with its clocks, or clocks' rates differ by more than the
//     session's margin covers.
//   - A process is paused between its last call of Err and its write.
//
// So a writer gives the storage its token, and the storage refuses one below the highest it has
// seen (see package fencing).
//
// It is not reentrant and has no priorities. A shared hold cannot be upgraded to an exclusive one:
// release, acquire, and read again. A lock and an election of one name are one queue: they exclude
// each other.
//
// # Failures
//
//	ErrBusy                      TryAcquire: another holds or waits
//	ErrLost and one cause        it was held, and is lost:
//	  lease.ErrExpired             renewals were not confirmed in time, by our clock
//	  lease.ErrRevoked             the lease is gone at the server
//	  lease.ErrClosed              this process closed or detached the session, or the client
//	  ErrKeyDeleted                the key was deleted, alone or with its lease
//	  ErrKeyOverwritten            somebody wrote to the key
//	  ErrMaxHold                   it was held for longer than Options.MaxHold
//	  ErrStalled                   no Progress was reported for as long as Options.Stall allows
//	  pawl.ErrClusterChanged       another cluster answers, or its revision went back
//	a cause alone                an Acquire that never won
//	ErrReleased                  Err after Release
//	kv.ErrUnknown                a Release that was not confirmed; it continues in the background
//	pawl.ErrTokenFloor           the token would not exceed Config.TokenFloor
//	context.DeadlineExceeded, context.Canceled  the call's context ended
package lock
