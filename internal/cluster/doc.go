// Package cluster is pawl's connection to an etcd cluster. It has a gRPC connection to each member, the
// credentials, and the pinned identity of the cluster, and sends requests whose outcome is known.
//
// # Guarantees
//
//  1. Every endpoint has a separate connection, with its own TLS server name. One member's failure,
//     slowness or certificate never affects another's. Once anything in the configuration demands TLS,
//     no connection goes without it, not even one to an advertised address.
//  2. Everything sent carries the current auth token, and "hasleader", so that a member without a
//     leader says so at once. Tokens are fetched once for all callers, hedged over members like a
//     renewal, paced, and fetched again when they have expired. A member that alone refuses a token is
//     avoided for a while, and the token that all share is kept.
//  3. The outcome of a failed write is one of three. NotApplied needs evidence: every request that was
//     sent for it is known to have ended, without a stream or with a status that the server gives only
//     when nothing was applied. Answered needs the evidence that the server has executed or refused
//     each, so that none can be applied later; it does not say which. Everything else is Unknown,
//     whatever the user's interceptors do. So a write that was answered without an error was sent in exactly
//     one copy that a server may have seen, over all its tries. If another copy may have been applied, or
//     none was seen, it is Unknown. This does not count for what was declared repeatable.
//  4. A request that may have been applied is sent again only if its sender declared a second copy
//     harmless (Always).
//  5. A try is one sending of a request to one member. Every try has a time limit, and so have all
//     tries together, even with context.Background(). A call returns when its context ends, or Grace
//     later if it still has something to send. A time limit that passed does not match
//     context.DeadlineExceeded.
//  6. Only answers of the pinned cluster are accepted. A linearizable answer ends the Cluster with
//     ErrChanged if its revision is below the highest one that had been received when its request was
//     sent. Nothing else about a revision does. An endpoint of another cluster is set aside until it
//     answers as part of this one. If probes find no endpoint of this cluster, the Cluster also ends
//     with ErrChanged.
//  7. A connection is silent if something was sent on it after what was last answered, and no answer, nor a part of
//     one, has come for 200 ms or three round trips. It is then examined. What the server sends of its own accord, such as
//     the events of a watch, is no answer. Silence alone changes nothing. If another member answers
//     meanwhile, the tries on the silent connection are given up, with the outcome that the evidence
//     gives, and so are the streams that have not opened on it. If a second connection to the same
//     address answers, it replaces the first, at most once in 2 to 30 s for each member. Time in which
//     this process was stopped counts neither as silence nor as a round trip.
//  8. A member without a connection is used only if no healthy member has one, and connects meanwhile.
//     A try that was sent before the present leader was elected is given up after half a second,
//     because the member may have forwarded it to the old leader, which may have lost it.
//  9. A name is looked up apart from the attempts to connect, for up to 30 s, once at a time. The hosts
//     that an answer last listed are used if the lookup fails, lists none, or is not back after half a
//     second. The address that last answered a request is tried after those that an answer lists. An address
//     counts when it has said something, and not when it has taken a connection. If another
//     cluster answers at an address that the present answer does not list, only that address is dropped.
//  10. Close returns when all goroutines and connections of the Cluster are gone.
//  11. Passwords and tokens are in no error and no log record.
//
// # Who owns what
//
//	Cluster.mu        the replacement of the list of members, and the end; Go takes it, so it is the last of all
//	Member.mu         when its line was and may be replaced, and when it was last asked something
//	awaits.mu         of a line: what awaits an answer, whether one is due, and whether the line is watched
//	credentials.mu    the tokens of all members, and the login under way
//	addresses.mu      of an endpoint: which of its addresses failed and which served; before name.mu
//	name.mu           of a host: the last answer and the lookup under way; before Cluster.mu
//	contest.writing   of a connection that is being made: the order of what is written to all; before contest.mu
//	contest.mu        the connections that take part in it
//
// The rest has one goroutine. A sender and its login belong to the goroutine of the call, a lineWatch and its
// exam to the one that watches the line, a dialing to the one that makes the connection, a fetch to the one that
// logs in. What many goroutines read or write for each request is atomic: the list of members, the line in use, the
// highest revision and raft term, the token, what became of each copy of a try. No mutex is held during a request, a read or a write, except for the
// write of a handshake.
//
// # What it does not do
//
// It keeps no lease and no watch alive; the packages that do open their streams on a Member. It does
// not support etcd's grpc-proxy. It does not find out whether a request with an unknown outcome was
// applied, because only the sender of the request knows how to read that back.
//
// # Failures
//
//	ErrClosed    Close was called
//	ErrChanged   another cluster answers, or a revision went back
//	ErrUnknown   a write failed and may have been applied: Answered or Unknown
//	*Error       every failed request: the operation, the endpoint, its outcome and gRPC code
package cluster
