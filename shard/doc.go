// Package shard distributes the shards of a name among workers. Exactly one worker works on each shard,
// loads are even, few shards move when a worker comes or goes, and each hold of a shard has a fencing
// token.
//
// A worker is a call of [Run]:
//
//	err := shard.Run(ctx, client, "orders", 64, shard.Options{},
//		func(ctx context.Context, h *shard.Held) error {
//			return consume(ctx, h.Shard(), h.Token()) // until ctx ends, then it saves its offset
//		})
//
// [Observe] reports which worker works on what, to everybody who may read the keys.
//
// # How it works
//
// Each shard is an ordinary exclusive lock, and only its queue decides who works on it. One of the
// workers is elected to plan. For each worker it writes a wish, which is a set of shards. A worker
// queues for the shards in its wish. It gives up other shards, but only to a worker that waits already.
// So a wish that is late, lost or absurd costs a wait, and never makes two owners.
//
// # What it guarantees
//
// Provided that none of the things below happened:
//
//  1. One owner: while a Held's Err is nil, no other Run works on that shard. This is the guarantee of
//     its lock, whatever the plans are.
//  2. Tokens: Held.Token is the create revision of the lock's key, and greater than that of
//     every earlier hold of the shard.
//  3. Run calls work for a shard only while it holds the shard, and never before its earlier
//     work for that shard has returned, not even on a new session.
//  4. A shard moves in order: work's context ends with ErrMoved while the shard is still held, and the
//     shard is released when work has returned. The next owner is waiting for it by then. A shard for
//     which nobody waits is kept.
//  5. Loads: soon after the last change (a plan is made a second after it), the number of shards
//     of each worker is within one of its share by weight, as far as workers can take them. No
//     plan with such loads moves fewer shards. Shards that fail on several workers do not count.
//     With Options.Load it is the loads that are even, as the workers tell them. When a worker has been
//     above 1.2 of its share for a TTL, or is above 1.3, shards move until none is above 1.1 of it, or
//     above its heaviest shard, as far as whole shards allow; within 10 s of a change that has been told,
//     at TTLs of up to 15 s. Loads that swing by 20 % from sample to sample move nothing. A shard that
//     moved for its load stays for four TTLs, longer each time, unless workers come or go.
//  6. If a worker dies, its shards have no owner for the TTL, a second, and a moment. If it leaves in
//     order, each of them waits for one handoff. If it comes back with the same Options.ID before the
//     TTL is over, it gets the same shards, and no other shard moves.
//  7. Shards get owners even without a planner: workers count the queues once a TTL, and take what has
//     had no owner for that long.
//  8. A shard whose work fails or stalls, or that a worker may not take, goes to another worker. While a shard
//     fails on several workers, all of them together try it about once a minute, and no other shard
//     moves for it. A worker on which most shards fail gets one at a time, at intervals that grow to
//     ten minutes, until one runs.
//  9. At rest it costs only the sessions' renewals, one watch of the planner, and one read a TTL for
//     each worker.
//
// # What it does not
//
// It does not move data. work loads what it needs, and Options.Prepare can do so ahead of time. It does
// not stop a write that is under way when a hold is lost. Give the storage the token, and let it refuse
// one below the highest it has seen (package fencing). A worker whose Run hangs while its session is
// renewed keeps the shards that it holds; one whose work hangs keeps them unless Options.Stall ends that.
// The number of shards is part of the data's layout. To change
// it, stop all workers, wait for a TTL and the longest write, and start with the new number. Until then
// Run returns ErrCount. With authentication, a worker needs permission to read and write the range of
// the name's keys below <namespace>//pawl/shard/.
//
// With Options.Load it promises neither even CPU or memory, nor the fewest moves, nor even numbers: a
// worker gets up to four times its share by number. A shard that is heavier than a worker's share gets a
// worker nearly for itself; only splitting it relieves that worker. Loads that change again and again are
// followed more and more seldom, waves faster than a few TTLs not at all. After a change of the planner
// the same loads may have another plan.
//
// # Failures
//
//	ErrMoved                     the cause of work's context: another waits for the shard, which is still held;
//	                             with lock.ErrLost: Options.Overrun has taken it
//	ErrCount                     Run: other workers were started with another number of shards
//	lock.ErrStalled              with lock.ErrLost: work reported no Progress for as long as Options.Stall allows
//	lock.ErrLost and one cause   Held.Err and the cause of work's context: the shard is lost, as a lock is
//	pawl.ErrClusterChanged       Run: another cluster answers, or its revision went back
//	pawl.ErrTokenFloor           Run: tokens would not exceed Config.TokenFloor
//	lease.ErrClosed              Run: the client is closed
//	context.DeadlineExceeded, context.Canceled  Run's context ended, and all works have returned
package shard
