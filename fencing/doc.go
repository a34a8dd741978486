// Package fencing carries the token of a lock to the storage that checks it.
//
// A lock service cannot stop a holder that was paused between its last look at the lock and its write; only the storage that
// receives the write can. So every holding of a lock has a Token, greater than the tokens of all holders of that name before it (those of
// two names may be equal, and mean nothing to one another);
// the holder sends it along with what it writes; and a guard at the storage refuses a token below the highest that it has
// seen for the resource.
//
// The package has the token itself, its way through a context, and Gate, a guard in memory for a service that owns its state. Guards for
// other stores are in the packages below it: sqlfence and pgxfence (SQL databases, in the caller's own transaction), httpfence and grpcfence (the way over the
// network), blobfence (object stores and directories). Package fencetest has the suite that all of them pass.
//
// # Guarantees
//
//  1. After a guard admitted an exclusive token, it refuses every smaller one for that resource, also after a restart of what the guard keeps its
//     tokens in. A refusal is a *StaleError, and nothing was written.
//  2. A token equal to the highest is admitted: one holder writes many times.
//  3. After a guard admitted a shared token, it refuses every smaller exclusive one, and no shared one because of it. So nobody that holds is refused, and a writer that
//     was paused is refused after a reader that came later.
//  4. A token that is zero or negative, and an empty resource, are refused with an error, and nothing is written.
//  5. The token of a context is the innermost; one that cannot be used hides the outer ones. FromContext finds exclusive tokens only.
//
// # What the caller does
//
// A new holder has its token admitted before its first read (it registers). Else the holder before can still write after
// that read, and what the new holder computed from it overwrites that write without having seen it.
//
// A guard is consulted in the same atomic step as the write that it guards. To ask first and write later leaves a gap in which a newer
// holder can come and go.
//
// # What it does not do
//
// It does not make anybody wait: that is the lock's part. It does not order writes that come with one and the same token. It protects
// nothing that is written past the guard.
package fencing
