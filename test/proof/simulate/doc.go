// Package simulate runs clients of locks through random faults, in testing/synctest bubbles, and
// compares what they learned with what the server did. They acquire one to three names, one by one or
// several at once, shared or exclusive, or permits of semaphores with different limits. Now and then one
// uses a semaphore as a lock, or the other way round. In a quarter of the scenarios workers of shards
// join, leave and die beside them, and in half of those on the cluster in memory somebody else writes
// before each request. In some of the scenarios the sessions have a LockDelay, and acquisitions have
// AtLeast, MaxHold, Stall or etcd's layout, or are jobs (Once). Sessions are taken over with all of it, and
// holders ask now and then whether they are wanted.
//
// A scenario is a number, its seed, which decides how many clients there are, how long their
// sessions live, and which faults strike when. The same seed gives the same faults and the same
// choices of the clients. The scheduler decides how goroutines interleave. Two servers are used:
// the in-memory cluster of internal/testkit/etcdfake, with all of its faults, and a real etcd with
// one member, test/etcdtest/embedded, whose requests and answers are lost and delayed on the way.
//
// What is checked of each scenario:
//
//  1. Everything that package history checks: one holder at any instant, or several
//     readers, tokens that increase, fenced writes in order, every call back within its
//     context's end plus 100 ms, exactly.
//  2. Honesty: when a client learns that it holds, it has a key in the queue, and no key before it
//     excludes it, according to the server, at that very moment. Only the end of a key that an
//     operator deletes, overwrites or revokes may be learned late, and by at most a TTL. The keys
//     of several names that are acquired at once were put at once. A slot's key was put while
//     nobody had the slot, with no more holders than any of them allows.
//  3. A Release that returns nil deleted the key between its call and its return,
//     or an earlier call of it did.
//  4. What AtLeast and LockDelay keep stays that long, even after a takeover of the session, unless an operator
//     ends it, or, of AtLeast, the end of the session. Nothing is held for longer than MaxHold, or without Progress for longer than Stall. A holder is
//     wanted only if somebody has come behind it, and, without faults, always then. A job that is recorded
//     does not run again, with RecordFirst none runs twice, and none is left out that nobody has run.
//  5. When the faults have ended, every client gets a lock, even if all try at once.
//  6. When the faults have ended, the workers share the shards out evenly, each to one of them, and
//     a worker that is to leave has left in time.
//  7. When the clients have closed and a lease's time has passed, no key, no
//     lease and no goroutine is left.
//
// Some dozens run in go test, 10,000 in make proof (package testscale), one in ten of them on the real
// server, on all cores, which takes about twenty minutes on two. PAWL_SIMULATE=n runs n of them,
// starting at seed PAWL_FIRST_SEED. PAWL_SEED=n runs only that seed, and prints what strikes when.
// A scenario that fails prints that command.
package simulate
