// Package queue is the one waiting algorithm, which locks and elections share:
// enqueue a key, wait for its predecessor, query, hold, release.
//
// A queue is all keys under one name, in the order of their create revisions.
// An exclusive acquisition is held once its key is the first one that exists. A shared one
// is held once no key before its own is exclusive. A permit is held once it has the key of a
// slot. The create revision of a holder's key is its fencing token.
// No two keys of a queue are made at one revision (rule G2: package together), so successive
// exclusive holders, and successive holders of one slot, have strictly increasing
// tokens (K1). The tokens of two names may be equal.
//
// An [Acquisition] is the life of one queue key, or of the keys of a set or a permit. Package
// state, which is pure, decides its state and the effects of each event. The files here make
// requests and watches, turn their results into events, and carry the effects out.
//
// # What it guarantees
//
//  1. A key name is made of the lease and a count, and is used for one acquisition and
//     never again (A1). What was, or may have been, put for an acquisition that failed is
//     deleted in the background until that is confirmed or its lease is gone (A6). Until
//     then it blocks the keys behind it. Such keys of one session are deleted together.
//  2. An acquisition is held only after evidence, followed by a reading of the clock (A2,
//     T3). Either a linearizable answer, at a revision not older than its own key, showed
//     its own key, on the unchanged session, with no key in its way created before it; or the release
//     of its predecessor put a handoff on its own key, in one transaction that found both
//     keys. state/owner.go has each kind.
//  3. A waiter watches its predecessor and its own key, from the present on, so that etcd
//     serves the watches at once. If others wrote meanwhile, one read, which the waiters of a
//     client share, shows what the watches may have missed (H2). If its own key, its session
//     or its context ends, Acquire returns at once (A3). If its context never ends it waits as
//     long as its session is valid: a request's time limit does not end the wait. A release
//     wakes one waiter.
//  4. Waiting never rests on a watch alone: each of the session's confirmed renewals, four
//     or five in a TTL and on changing members, also reads whether the two keys still exist as they
//     were seen (A4). Compaction does not lose the position.
//  5. An enqueue whose answer was lost is settled by a transaction that finds whether the
//     key was put, and in either case makes it impossible for a late copy to be applied;
//     absence alone proves nothing (A5, F8).
//  6. A holder learns, with one final cause, when its session has ended, and when its key
//     was deleted, alone or with its lease, or overwritten by somebody else (H1). A deleted key
//     starts a renewal at once, which ends the session if its lease is gone. Err compares the
//     clock at the call, and does not block.
//  7. A release deletes under a comparison of the create revision, and reports whether the
//     lock was held until then, and whether somebody else wrote to the key (R1). A release
//     that is not confirmed continues in the background (R2).
//  8. A value that may have been written, or may be written later, stays in doubt until the
//     key's modification revision moves; until then it is not taken for somebody else's.
//  9. An acquisition has no goroutine and no timer of its own.
//
// # What it does not
//
// It does not skip keys that are not pawl's. It waits for every key under the name with a
// smaller create revision, so that peers in etcd's own layout are excluded too, and so that
// a lock and an election of one name exclude each other. (A session may skip a key that
// somebody else puts under that session's own lease, in the form of its keys.) A key without
// a lease blocks the queue until somebody deletes it; waiting behind one is logged.
package queue
