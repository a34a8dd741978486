// Package cluster is pawl's connection to an etcd cluster: its members, one gRPC connection to
// each, the credentials, what has been pinned about the cluster, and requests whose outcome is known.
//
// # Guarantees
//
//  1. Every endpoint has a connection of its own, with its own TLS server name. One member's
//     failure, slowness or certificate never affects another's. Once anything in the configuration
//     demands TLS, no connection goes without it, not even one to an advertised address.
//  2. Everything sent carries "hasleader", so that a member without a leader says so at once, and
//     the current auth token. Tokens are fetched once for all callers, hedged over members as a renewal
//     is, paced, and fetched again when they have ended. A member that alone refuses a token is avoided
//     for a while, and nobody logs in again because of it.
//  3. The outcome of a failed write is one of two. NotApplied needs evidence: every request that left
//     for it is known to have ended, without a stream or with a status that the server gives only when
//     nothing was applied. Everything else is Unknown, whatever interceptors of the user's do. So is a
//     transaction that was answered, unless declared repeatable, while another copy that an interceptor sent may have
//     been applied.
//  4. A request that may have been applied is sent again only where its sender declared a second
//     copy harmless (Always).
//  5. A try is one sending of a request to one member. Every try has a bound of its own, and so have
//     all tries together, even with context.Background(). A call returns when its context ends, or Grace
//     later where it still has something to send. A bound that passed does not match context.DeadlineExceeded.
//  6. Only answers of the pinned cluster are taken. A linearizable answer whose revision is below
//     the highest one that had been received when its request was sent ends the Cluster with
//     ErrChanged; nothing else about a revision does. An endpoint of another cluster is set aside until it
//     answers as this one; when probes find none that is this one's, the Cluster ends likewise.
//  7. A connection that is silent after something was sent on it is examined, after 200 ms or three
//     round trips. Only answers count as life while one is due: events of watches do not. Silence alone
//     changes nothing. When another member answers meanwhile, the tries on
//     the silent one are given up, with the outcome that the evidence gives, and the streams that wait for it. When a second
//     connection to the same address answers, it takes the first one's place, at most once in 2 to 30 s
//     for each member. Time in which this process was stopped does not count, nor as a round trip.
//  8. A member without a connection is used only where no healthy one has any, and connects meanwhile.
//     A try that was sent before the present leader was elected is given up half a second after that:
//     the member had forwarded it to the old leader, which may have lost it.
//  9. Close returns when all goroutines and connections of the Cluster are gone.
//  10. Passwords and tokens are in no error and no log record.
//
// # What it does not do
//
// It keeps no lease and no watch; those open their streams on a Member themselves. It does not
// support etcd's grpc-proxy. It does not find out whether an unknown outcome was applied: only
// the sender of the request knows how to read that back.
//
// # Failures
//
//	ErrClosed    Close was called
//	ErrChanged   another cluster answers, or a revision went back
//	ErrUnknown   a write failed and may have been applied
//	*Error       every failed request: the operation, the endpoint, its outcome and gRPC code
package cluster
