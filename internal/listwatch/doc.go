// Package listwatch keeps up with keys. Its users read them at a revision, watch them starting at the
// next revision, and read again after a gap.
//
// [Persist] repeats a read until it succeeds. A [Tail] has the events starting at a revision. It is a
// bounded buffer between a watch and a reader that may be slow.
//
// # Guarantees
//
//  1. A Tail returns each event of its keys, starting at its first revision, once, in the order of
//     revisions, whole revisions at a time, up to a gap or an error.
//  2. Its memory is bounded. It holds at most 4,096 events or 16 MiB that its reader has not taken, or
//     one message. If more arrives, the watch ends. When the reader has taken everything, the watch
//     begins again after the last event that was held. Nothing is lost unless the cluster compacts it
//     meanwhile.
//  3. A gap is reported after the events before it, and is the last thing that a Tail returns.
//  4. A Tail has no goroutine.
//
// # What it does not do
//
// It keeps no state of the keys. Each of its users derives that from the events.
//
// The events of its first moment may come up to 100 ms late: the watch starts at the revision after that
// of the read, and if others have written to the cluster since, etcd serves it at its next tick. To watch
// first and to read then would avoid that once, and would have every first state wait for the watch.
package listwatch
