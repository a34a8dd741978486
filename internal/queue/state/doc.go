// Package state is one acquisition of a name as a pure machine: its phase, what it
// knows of its queue key and of its predecessor, and what follows from each event.
// It has no lock, no clock and no I/O. Package queue feeds it with what requests,
// watches and renewals show, and carries out the effects.
//
//	Enqueuing ──alone──────────────────────────────┐
//	   │  └─answer lost─▶ Settling ─found─┐        │ evidence
//	   │ has a predecessor                ▼        ▼
//	   └────────────▶ Waiting ─gone─▶ Querying ──▶ (owner) ─clock─▶ Held ─▶ Releasing ─▶ Done
//	                     ▲              │
//	                     └─predecessor──┘
//
// An acquisition that gives up passes through Undoing until its key is deleted. One
// that is lost, and one whose session ends, is Done at once, or Undoing where its key
// has to be deleted still.
//
// # What it guarantees
//
//  1. An acquisition becomes the owner by one of three kinds of evidence and by
//     nothing else (rule A2): owner.go holds all three, and Won, which follows the
//     last look at the clock, is the only way to Held.
//  2. An acquisition ends once. A release that finds a loss replaces its end, and
//     nothing else does.
//  3. A modification of the own key is known already, ours, a handoff to it, or
//     foreign; a foreign one ends the acquisition (rule H1). The values in doubt are
//     one set, which only a newer modification revision empties.
//  4. What becomes of a release is a function of the request's outcome, of whether it
//     carried a handoff, and of what was known before (rule R1).
//  5. No event makes it panic, in any phase and in any order.
//
// # What it does not
//
// It does not know of leases' deadlines: its user compares the clock before Won, and
// reports a session's end. It does not read names: which key is the predecessor is for
// the transaction that reads the queue to say, by the mode of the acquisition.
package state
