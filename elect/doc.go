// Package elect elects a leader on etcd. A leader learns when it no longer leads, and has a fencing
// token. Anybody can observe who leads.
//
// [Run] is the loop that everyone otherwise writes by hand:
//
//	err := elect.Run(ctx, client, "reports", elect.RunOptions{Value: []byte(host)},
//		func(ctx context.Context, t *elect.Term) error {
//			return serve(ctx, t.Token()) // until ctx ends
//		})
//
// [Election.Campaign] is one campaign, on the client's session or on one that the caller made, and
// a [Term] is what it wins. [LeaderOf] and [Observe] report who leads, to anyone who may read,
// without a session and without writing anything.
//
// # What it guarantees
//
// Provided that none of the things below happened:
//
//  1. One leader: while a Term's Err is nil, nobody else can have been elected
//     under the name, through pawl or, with EtcdLayout, through clientv3's
//     concurrency.Election. Two candidates of one session, or of one Election,
//     exclude each other as two processes do.
//  2. Order: candidates lead first come, first served. One that gives up, or
//     dies, leaves the others' order unchanged.
//  3. Tokens: Term.Token is the create revision of Term.Key, and strictly greater
//     than that of every earlier term of the name. It stays the same through
//     Proclaim and Resume.
//  4. Loss is reported: a term is lost once the session has ended, somebody else has
//     deleted or overwritten the key, or RunOptions.Stall has ended it. Then Err returns one final cause, the Context is
//     cancelled with it, and Done is closed. Err compares the clock at the call, so after a
//     pause of any length it is right at the first call.
//  5. Either the error or the Term is nil. After any error of Campaign the candidate's
//     queue key is deleted in the background. Until then it blocks others, or until its lease
//     ends if etcd cannot be reached. A Resign that returns nil ended a term that lasted
//     until then, and nobody else had written to the key.
//  6. Values: a Proclaim compares the create and the modification revision of its
//     key. A value that was proclaimed is never replaced by an older one of the
//     same term, however late a copy of that arrives; none is written after the term.
//  7. Observe yields who led at the revision that it names, or that nobody did:
//     never a candidate that did not lead, never an event twice, never an older
//     state after a newer one. It always reaches the latest state. LeaderOf is
//     linearizable.
//  8. Run calls lead once for each term that it won, never before the campaign is
//     decided, and never twice at a time. It cancels lead's context first, waits for
//     lead, and only then resigns. While lead runs, Run does nothing that would
//     let another be elected sooner, unless RunOptions.Stall has ended the term.
//  9. Every call returns within its context's end plus 100 ms; for Run this counts from
//     lead's return.
//  10. Neither a term nor Observe costs a goroutine or a timer.
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
// An observer learns who led, not who leads: when it acts, another may lead. A request that is sent
// to a leader should carry the token that was observed. There are no priorities, and leadership
// cannot be handed to a chosen candidate. Without EtcdLayout, only pawl's own candidates are
// excluded. An election and a lock of one name are one queue: they exclude each other.
//
// # Failures
//
//	ErrNoLeader                  LeaderOf: nobody leads
//	ErrBusy                      TryCampaign: another leads or is a candidate
//	ErrLost and one cause        the term was won, and is lost:
//	  lease.ErrExpired             renewals were not confirmed in time, by our clock
//	  lease.ErrRevoked             the lease is gone at the server
//	  lease.ErrClosed              this process closed or detached the session, or the client
//	  ErrOverrun                   lead outlived its context by more than RunOptions.Overrun
//	  ErrKeyDeleted                the key was deleted, alone or with its lease
//	  ErrKeyOverwritten            somebody else wrote to the key
//	  ErrStalled                   lead reported no Progress for as long as RunOptions.Stall allows
//	  pawl.ErrClusterChanged       another cluster answers, or its revision went back
//	a cause alone                a Campaign that never won; Observe, where the client or the cluster ended
//	ErrResigned                  Err after Resign, and after Run resigned
//	ErrJeopardy                  the cause of lead's context, not of the term: StopInJeopardy has ended it
//	kv.ErrUnknown                a Proclaim that may have been applied; a Resign that goes on in the background
//	pawl.ErrTokenFloor           the token would not exceed Config.TokenFloor
//	context.DeadlineExceeded, context.Canceled  the call's context ended
package elect
