// Package fencetest is the conformance suite for guards. Run it if you write a guard for another kind of
// store.
//
// Wrap the guard as a Store, which keeps one string for each resource, and open it twice, as two
// processes would. Suite.Run then checks each of the following as a separate test:
//
//  1. A token below the highest admitted is refused, for reads and writes, as a *fencing.StaleError
//     with both tokens; nothing is written.
//  2. A token equal to the highest is admitted.
//  3. A read registers its token. After it, an older holder's write is refused, even if nothing had been
//     written yet.
//  4. A SharedStore admits shared tokens in any order, refuses those below an exclusive one, and
//     refuses exclusive ones below a shared one.
//  5. Resources are kept apart, byte for byte, whatever their names. An unknown one admits any token.
//     Hundreds of them are remembered.
//  6. Token 0, a negative token, an empty and an over-long resource are refused, and leave no trace.
//  7. Admission and write are one step, and a read registers before it reads. Many writers race, and
//     their history passes Check.
//  8. What was refused before a restart is refused after it.
//  9. An aborted write leaves no trace, neither of its value nor of its token.
//  10. A write that was applied, and whose answer was lost, can be sent again by its holder, and
//     not by an older one.
//  11. A call whose context is done returns an error.
//
// What one instance has admitted, the other one knows. Every test uses both in turn.
//
// Check replays any history of reads and writes, as a Recorder notes them, and names the first
// operation that a guard should not have let through. It can be used alone, for runs with faults on
// a store that is too slow or too remote for the suite.
//
// The suite finds a guard's faults; it does not prove that there are none. It reaches the races of point
// 7 by chance, over many repetitions.
package fencetest
