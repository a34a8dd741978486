// Package queue is the one waiting algorithm, which locks and elections share:
// enqueue a key, wait for its predecessor and for itself, confirm, hold, release.
//
// A queue is all keys under one name, in the order of their create revisions.
// The first one alive is the holder; its create revision is its fencing token.
// No two keys of a queue are made at one revision (rule G2: package together) and
// the holder is the smallest alive, so successive holders have strictly increasing
// tokens (K1). The tokens of two names may be equal.
//
// An [Acquisition] is one key's life. What it is, and what follows from each event,
// is package state, which is pure; the files here make requests and watches, turn what
// they show into events, and carry the effects out.
//
// # What it guarantees
//
//  1. A key name is used for one acquisition and never again: the lease and a count
//     make it (A1). What was, or may have been, put for an acquisition that failed is
//     deleted in the background until confirmed or until its lease is gone (A6). Until
//     then it blocks those behind it. What many acquisitions of one session leave is
//     deleted together.
//  2. An acquisition is held only after a linearizable answer, at a revision not older
//     than its own key, showed its own key, on the session as it knows it, with nothing
//     created before it; or after the release of its predecessor put a handoff on its
//     own key, in one transaction that found both there; and after a look at the clock
//     that followed (A2, T3). See state/owner.go and handoff.go.
//  3. A waiter watches its predecessor and its own key, from the revisions at which they
//     were seen. Its own key's end, its session's end and its context's end return at
//     once (A3). With a context that never ends it waits as long as its session is
//     valid: no bound of a request is its. A release wakes one waiter.
//  4. Waiting never rests on a watch: each of the session's confirmed renewals,
//     four in a TTL and on changing members, also reads whether the two keys are
//     still there as they were seen (A4). Compaction does not lose the position.
//  5. An enqueue whose answer was lost is settled by a transaction that finds the
//     key, or finds that it was not put, and makes it impossible in either case
//     for a late copy to be applied; absence alone proves nothing (A5, F8).
//  6. A holder learns, with one cause that stands, when its session has ended, when
//     its key is deleted, or overwritten by somebody else (H1). Err compares the clock
//     at the call.
//  7. A release deletes under a comparison of the create revision, and reports
//     whether it was held until then, and whether somebody else wrote to the key (R1).
//     One that is not confirmed goes on in the background (R2).
//  8. A value that may have been written, or may be yet, stays in doubt until the key's
//     modification revision moves; meanwhile it is not taken for another's.
//  9. An acquisition has no goroutine and no timer of its own.
//
// # What it does not
//
// It does not skip keys that it does not know: whatever has a key under the
// name, with a smaller create revision, is waited for, so that peers in etcd's
// own layout are excluded too, and so that a lock and an election of one name
// exclude each other. (What somebody puts under the session's own lease and pretends
// to be its key may be passed over by that session.) A key without a lease blocks the
// queue until somebody deletes it; waiting behind one is logged.
package queue
