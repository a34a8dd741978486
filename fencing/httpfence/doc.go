// Package httpfence carries fencing tokens over HTTP. A Transport sends the token of a request's
// context, and a Handler refuses stale ones before the service sees the request.
//
// # The header
//
// The header is Fencing-Token. Its value is the token in decimal, one space, and the resource,
// percent-encoded as a path segment:
//
//	Fencing-Token: 57 jobs%2F42
//
// The token of a shared lock is followed by the word "shared":
//
//	Fencing-Token: 57 jobs%2F42 shared
//
// Each token has one spelling, and no other is accepted. A version of this package that knows no
// shared tokens refuses them as garbled.
//
// # Guarantees
//
//  1. A Transport sends exactly one such header, with the innermost token of the request's context,
//     or does not send the request.
//  2. Behind Handler, every request came with a token that at its admission was not below the highest
//     the gate had seen for the resource. The token is in the request's context.
//  3. Handler answers all other requests itself: 428 without a token, 400 with a garbled one or several,
//     412 with a stale one.
//
// # What the service does
//
// Handler admits a request before its handler runs, and cannot keep a newer holder from being admitted
// while it runs. So a handler that writes has the token admitted once more, in one step with the write:
// by the same Gate, under the mutex that guards what it writes, or by the store's guard (sqlfence …)
// with the token of r.Context(). fencing.FromContext finds exclusive tokens only; Gate.AdmitContext also
// admits those of readers. Handler saves such a service reading the requests that it refuses, and is
// enough for the parts that need no such step.
//
// A client states its own token: one that sends a high token shuts the others out. So put Handler behind
// the authentication of clients.
//
// # Answers
//
// The body of 400, 412 and 428 is a problem report (RFC 9457, application/problem+json). That of 412
// says which token was seen:
//
//	{"type":"urn:pawl:fencing:stale","title":"stale fencing token","status":412,
//	 "detail":"stale token 41 for \"jobs/42\": 57 was seen","resource":"jobs%2F42","got":41,"highest":57}
//
// The resource is percent-encoded here too. Refused turns such an answer into an error, a
// *fencing.StaleError for the stale token.
package httpfence
