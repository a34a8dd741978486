// Package simulate runs clients of locks through random faults, in
// testing/synctest bubbles, and compares what they learnt with what the
// server did. They acquire one to three names, one by one or several at once, shared or
// exclusive, or permits of semaphores under limits that differ; now and then one takes a
// semaphore for a lock, or the other way round.
//
// A scenario is a number, its seed: it decides how many clients there are, how
// long their sessions live, and which faults strike when. Same seed, same faults
// and same wishes of the clients; how goroutines interleave is the scheduler's.
// Two servers take part: the in-memory cluster of internal/testkit/etcdfake, with
// every fault it knows, and a real etcd with one member, internal/testkit/embedded,
// whose requests and answers are lost and delayed on the way.
//
// What is checked of each scenario:
//
//  1. Everything that package history checks: one holder at any instant, or
//     readers, tokens that increase, fenced writes in order, every call back within its
//     context's end plus 100 ms, exactly.
//  2. Honesty: a client that learns that it holds had a key in the queue, and none
//     before it that excludes it, as the server knows it, at that very moment. Only
//     the end of a key that an operator deletes, overwrites or revokes may be learnt
//     late, and by at most a TTL.
//     The keys of several names that are acquired at once were put at once. A slot's key
//     was put where nobody had the slot, no more held than any of them agreed to, and no
//     key of another kind was there.
//  3. A Release that says nil deleted the key between its call and its return,
//     or one of an earlier attempt did.
//  4. When the faults have ended, every client gets a lock, though all ask at once.
//  5. When the clients have closed and a lease's time has passed, no key and no
//     lease is left, and no goroutine.
//
// A few hundred run in go test. PAWL_SIMULATE=10000 runs that many, one in ten
// of them on the real server, on as many cores as there are: on two, in seven
// minutes. PAWL_SEED=n runs the one, and says what strikes when.
package simulate
