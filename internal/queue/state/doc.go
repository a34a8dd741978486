// Package state is the state of one acquisition of a name, as a pure machine: its phase, what it
// knows of its queue key and of its predecessor, and the effects of each event. It has no lock, no
// clock and no I/O. Package queue turns the results of requests, watches and renewals into events,
// and carries out the effects.
//
//	Enqueuing ──alone──────────────────────────────┐
//	   │  └─answer lost─▶ Settling ─found─┐        │ evidence
//	   │ has a predecessor                ▼        ▼
//	   └────────────▶ Waiting ─gone─▶ Querying ──▶ Owner ─clock─▶ Held ─▶ Releasing ─▶ Done
//	                     ▲              │
//	                     └─predecessor──┘
//
// An enqueue that was settled as not applied is Enqueuing again. The first in a semaphore's
// turnstile goes from Querying to Taking, or to Full until a slot is free.
//
// An acquisition that gives up is Undoing until its key is deleted. One that is lost, or whose
// session ends, is Done at once, or Undoing if its key still has to be deleted.
//
// # What it guarantees
//
//  1. An acquisition becomes the owner by the kinds of evidence in owner.go and by nothing
//     else (rule A2). Won, which follows the last reading of the clock, is the only way to
//     Held, except that a resumed acquisition begins there (Resumed).
//  2. An acquisition ends once. Only a release that finds a loss replaces its end.
//  3. A modification of its key is known already, ours, a handoff to it, or foreign. A foreign
//     one ends the acquisition (rule H1). The values in doubt form one set. A newer
//     modification revision empties it; a value that was certainly not applied leaves it.
//  4. The result of a release is a function of the request's outcome, of whether it
//     carried a handoff, and of what was known before (rule R1).
//  5. No event makes it panic, in any phase and in any order.
//
// # What it does not
//
// It does not know the leases' deadlines: its user compares the clock before Won, and reports a
// session's end. It does not read names: the transaction that reads the queue decides which key is
// the predecessor, according to the mode of the acquisition.
package state
