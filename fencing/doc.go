// Package fencing carries the token of a lock to the storage that checks it.
//
// A lock service cannot stop a holder that was paused between its last check of the lock and its
// write; only the storage that receives the write can. So every hold of a lock has a Token, greater
// than the tokens of all earlier exclusive holders of that name, or of that slot of a semaphore.
// (The tokens of two names may be equal, and are unrelated.) The holder sends it with its writes,
// and a guard at the storage refuses a token below the highest that it has seen for the resource.
//
// The package has the token itself, functions to carry it in a context, and Gate, a guard in
// memory for a service that owns its state. Guards for other stores are in the packages below
// it: sqlfence and pgxfence (SQL databases, in the caller's own transaction), httpfence and
// grpcfence (over the network), blobfence (object stores and directories). Package fencetest
// has the test suite that all of them pass.
//
// # Guarantees
//
//  1. After a guard admitted an exclusive token, it refuses every smaller one for that
//     resource, even after a restart of the store that keeps the guard's tokens. A refusal is
//     a *StaleError, and nothing was written.
//  2. A token equal to the highest is admitted: one holder writes many times.
//  3. After a guard admitted a shared token, it refuses every smaller exclusive one, but no other
//     shared one for that reason. So it refuses no current holder, and it refuses a writer that
//     was paused once a later reader has come.
//  4. A token that is zero or negative, and an empty resource, are refused with an error, and
//     nothing is written.
//  5. The token of a context is the innermost one. If that cannot be used, no outer one is.
//     FromContext finds exclusive tokens only.
//
// # What the caller does
//
// Before its first read, a new holder has its token admitted, which registers it. Otherwise the
// previous holder could still write after that read, and the new holder would overwrite that write
// without having read it.
//
// A guard is consulted in the same atomic step as the write that it guards. Otherwise a newer
// holder could come and go between the check and the write.
//
// # What it does not do
//
// It makes nobody wait, because the lock does that. It does not order writes with the same token.
// It does not protect writes that bypass the guard.
package fencing
