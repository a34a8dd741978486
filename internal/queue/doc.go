// Package queue is the one waiting algorithm, which locks and elections share:
// enqueue a key, wait for the key before it and for itself, confirm, hold,
// release.
//
// A line is the keys under one name, in the order of their create revisions.
// The first one alive is the holder; its create revision is its fencing token.
// Every write transaction has a revision of its own and the holder is the
// smallest alive, so successive holders have strictly increasing tokens (K1).
//
// # What it guarantees
//
//  1. A key name is used for one attempt and never again: the lease and a count
//     make it (A1). What was, or may have been, put for an attempt that failed is
//     removed behind the caller until confirmed or until its lease is gone (A6).
//  2. Nobody is told that it holds before a linearizable answer, at a revision
//     not older than its own key, showed its own key, on the session as it knows
//     it, with nothing created before it; or before the release of the key that
//     it waited for put a grant on its own, in one transaction that found both
//     there; and then the clock was looked at (A2, T3). See grant.go.
//  3. A waiter watches the one key before its own, and its own, from the
//     revisions at which they were seen. Its own key's end, its session's end and
//     its context's end return at once (A3). A release wakes one waiter.
//  4. Waiting never rests on a watch: each of the session's confirmed renewals,
//     four in a TTL and on changing members, also looks whether the two keys are
//     still there as they were seen (A4). Compaction does not lose the place.
//  5. An enqueue whose answer was lost is settled by a transaction that finds the
//     key, or finds that it was not put, and makes it impossible in either case
//     for a late copy to be applied; absence alone proves nothing (A5, F8).
//  6. A holder is told, with one cause that stands, when its session is over, when
//     its key is deleted, or overwritten by somebody else (H1). Err looks at the
//     clock at the call.
//  7. A release deletes under a comparison of the create revision, and says
//     whether it was held until then (R1). One that is not confirmed goes on
//     behind the caller (R2).
//  8. A claim has no goroutine and no timer of its own.
//
// # What it does not
//
// It does not skip keys that it does not know: whatever has a key under the
// name, with a smaller create revision, is waited for, so that peers in etcd's
// own layout are excluded too. (What somebody puts under the session's own lease
// and pretends to be its key may be passed over by that session.) A key without a lease blocks the line until
// somebody deletes it; waiting behind one is logged.
package queue
