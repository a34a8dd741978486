// Package listwatch keeps up with keys: its users read them at a revision, watch them from
// the next revision on, and read again after a gap.
//
// [Persist] repeats a read until it succeeds. A [Tail] is what happens from a revision on: a
// bounded buffer between a watch and a reader that may be slow.
//
// # Guarantees
//
//  1. A Tail returns each event of its keys from its first revision on once, in the order of
//     revisions, whole revisions at a time, up to a gap or an error.
//  2. Its memory is bounded: it holds at most 4,096 events or 16 MiB that its reader has not
//     taken, or one message. If more arrives, the watch ends, and begins again after the last
//     event held when the reader has taken all: nothing is lost unless the cluster compacts it
//     meanwhile.
//  3. A gap is reported after the events before it, and is the last thing that a Tail returns.
//  4. A Tail has no goroutine.
//
// # What it does not do
//
// It keeps no state of the keys: each of its users derives its own.
package listwatch
