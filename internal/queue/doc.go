// Package queue is the waiting algorithm that locks and elections share: enqueue a key, wait for
// its predecessor, query, hold, release.
//
// A queue is all keys under one name, in the order of their create revisions. An exclusive
// acquisition is held once its key is the first one that exists. A shared one is held once no
// earlier key is exclusive. A permit is held once it has the key of a slot. The create revision of
// a holder's key is its fencing token. No two keys of a queue are made at one revision (rule G2,
// see package batch), so successive exclusive holders, and successive holders of one slot, have
// strictly increasing tokens (K1). The tokens of two names may be equal.
//
// An [Acquisition] tracks one queue key, or the keys of a set or a permit, until they are gone.
// Package state, which is pure, decides its state and the effects of each event. The files here
// make requests and watches, turn their results into events, and carry the effects out.
//
// # What it guarantees
//
// The rules of docs/explanation/safety.md that begin with A (how a name is owned), H (how its loss
// is noticed), R (how it is released), RW, SM, ML and LD, which the comments here cite. And:
//
//  1. An acquisition is held only after evidence, followed by a reading of the clock (A2, T3);
//     state/owner.go has each kind.
//  2. If the context of an Acquire never ends, it waits as long as its session is valid: a
//     request's time limit does not end the wait. If its key, its session or its
//     context ends, it returns at once. A release wakes one waiter.
//  3. A value that may have been written, or may be written later, stays in doubt until the
//     key's modification revision moves. Until then it is not taken for somebody else's.
//  4. An acquisition has no goroutine and no timer of its own.
//
// # What it does not
//
// It does not skip keys that are not pawl's. It waits for every key under the name with a smaller
// create revision, so that peers in etcd's layout are excluded too, and so that a lock and an
// election of one name exclude each other. (A session may skip a key that somebody else puts under
// that session's lease, in the form of its keys.) A key without a lease blocks the queue until
// somebody deletes it; waiting behind one is logged.
package queue
