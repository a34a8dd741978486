// Package cluster is pawl's connection to an etcd cluster: its members, one gRPC connection to
// each, the credentials, what has been pinned about the cluster, and requests whose outcome is told.
//
// # Guarantees
//
//  1. A connection of its own for every endpoint, with its own TLS server name. One member's
//     trouble, slowness or certificate is never another's.
//  2. Everything sent carries "hasleader", so that a member without a leader says so at once, and
//     the current auth token. Tokens are fetched once for all callers, and again when refused.
//  3. The outcome of a failed write is one of two: NotApplied, which is proved by the transport
//     (no stream was ever made) or by a status that the server only gives when nothing was
//     applied; and Unknown, which is everything else. It is never guessed.
//  4. A request that may have been applied is sent again only where its sender declared a second
//     copy harmless (Always).
//  5. Every attempt has a bound of its own, and so have all attempts together, with
//     context.Background() too. A call returns when its context ends, or Grace later where it has
//     to send something still.
//  6. Only answers of the pinned cluster are taken. A linearizable answer whose revision is below
//     the highest one that had been received when its request was sent ends the Cluster with
//     ErrChanged; nothing else about a revision does.
//  7. Close returns when all goroutines and connections of the Cluster are gone.
//  8. Passwords and tokens are in no error and no log record.
//
// # What it does not do
//
// It keeps no lease and no watch; those open their streams on a Member themselves. It does not
// support etcd's grpc-proxy. It does not find out whether an unknown outcome was applied: only
// whoever sent the request knows how to ask.
//
// # Failures
//
//	ErrClosed    Close was called
//	ErrChanged   another cluster answers, or a revision went back
//	ErrUnknown   a write failed and may have been applied
//	*Error       every failed request: which, where, its outcome and gRPC code
package cluster
