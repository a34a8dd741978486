// Package shard shares out the shards of a name among workers: each shard is worked on by
// exactly one of them, loads are even, few shards move when a worker comes or goes, and each
// hold of a shard has a fencing token.
//
// A worker is a call of [Run]:
//
//	err := shard.Run(ctx, client, "orders", 64, shard.Options{},
//		func(ctx context.Context, h *shard.Held) error {
//			return consume(ctx, h.Shard(), h.Token()) // until ctx ends, then it saves its offset
//		})
//
// [Observe] reports who works on what, to anyone who may read.
//
// # How it works
//
// Each shard is an ordinary exclusive lock, and its queue alone decides who works on it. One of
// the workers is elected to plan: it writes, for each worker, a wish, which is a set of shards.
// A worker queues for what it is wished, and gives up what it is not, and only to a worker that
// waits already. So a wish that is late, lost or absurd costs a wait, and never makes two owners.
//
// # What it guarantees
//
// Provided that none of the things below happened:
//
//  1. One owner: while a Held's Err is nil, no other Run works on that shard. This is the
//     guarantee of its lock, whatever anybody plans.
//  2. Tokens: Held.Token is the create revision of the lock's key, and greater than that of
//     every earlier hold of the shard.
//  3. Run calls work for a shard only while it holds the shard, and never before its earlier
//     work for that shard has returned, not even on a new session.
//  4. A shard moves in order: work's context ends with ErrMoved while the shard is still held;
//     the shard is released when work has returned, and the next owner waits for it then. A
//     shard that nobody waits for is kept.
//  5. Loads: soon after the last change (a plan is made a second after it), the number of shards
//     of each worker is within one of its share by weight, as far as workers can take them. No
//     plan with such loads moves fewer shards.
//  6. A worker that dies costs its shards the TTL, a second, and a moment. One that leaves in
//     order costs them one handoff each.
//  7. No planner is needed to live: workers count the queues once a TTL, and take what has had
//     no owner for that long.
//  8. A shard whose work fails, or that a worker may not take, goes elsewhere, and the other
//     shards are not affected.
//  9. At rest it costs nothing but the sessions' renewals, one watch of the planner's, and one
//     read a TTL for each worker.
//
// # What it does not
//
// It does not move data: work loads what it needs, and Options.Prepare can do so ahead of time.
// It does not stop a write that is under way when a hold is lost: give the storage the token,
// and let it refuse one below the highest it has seen (package fencing). A worker whose Run
// hangs while its session is renewed keeps the shards that it holds. The number of shards is
// part of the data's layout: to change it, stop all workers, wait for a TTL and the longest
// write, and start with the new number; until then Run returns ErrCount. With authentication, a
// worker needs to read and write the range of the name's keys below <namespace>//pawl/shard/.
//
// # Failures
//
//	ErrMoved                     the cause of work's context: another waits for the shard, which is still held;
//	                             with lock.ErrLost: Options.Overrun has taken it
//	ErrCount                     Run: other workers share out another number of shards
//	lock.ErrLost and one cause   Held.Err and the cause of work's context: the shard is lost, as a lock is
//	pawl.ErrClusterChanged       Run: another cluster answers, or its revision went back
//	pawl.ErrTokenFloor           Run: tokens would not exceed Config.TokenFloor
//	lease.ErrClosed              Run: the client is closed
//	context.DeadlineExceeded, context.Canceled  Run's context ended, and all works have returned
package shard
