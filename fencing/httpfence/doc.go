// Package httpfence carries fencing tokens over HTTP: a Transport that sends the token of a request's context, and a Handler that refuses stale
// ones before the service sees the request.
//
// # The header
//
// The header is Fencing-Token. Its value is the token in decimal, one space, and the resource, percent-encoded as a path segment:
//
//	Fencing-Token: 57 jobs%2F42
//
// The token of a shared lock has the word "shared" behind it:
//
//	Fencing-Token: 57 jobs%2F42 shared
//
// Each token has one spelling, and no other is accepted. A version of this package that knows no shared tokens refuses them as garbled.
//
// # Guarantees
//
//  1. A Transport sends exactly one such header, with the innermost token of the request's context, or does not send the request.
//  2. Behind Handler, a request had a token when it came, that was at its admission not below the highest the gate had seen for the resource. The
//     token is in the request's context.
//  3. All others are answered by Handler: 428 without a token, 400 with a garbled one or several, 412 with a stale one.
//
// # What the service does
//
// Handler admits a request before its handler runs, and cannot keep a newer holder from being admitted while it runs. So a handler that writes
// asks once more, in one step with the write: the same Gate, under the mutex that guards what it writes, or the store's own guard (sqlfence …) with
// the token of r.Context(). fencing.FromContext finds exclusive tokens only; Gate.AdmitContext admits those of readers, too. What Handler saves it is the reading of the request, and the pieces that need no such step.
//
// A client states its own token, so Handler is to be put behind the authentication of clients: one that sends a high token shuts the others out.
//
// # Answers
//
// The body of 400, 412 and 428 is a problem report (RFC 9457, application/problem+json); that of 412 says which token was seen:
//
//	{"type":"urn:pawl:fencing:stale","title":"stale fencing token","status":412,
//	 "detail":"stale token 41 for \"jobs/42\": 57 was seen","resource":"jobs%2F42","got":41,"highest":57}
//
// The resource is percent-encoded here too. Refused turns such an answer into an error, a *fencing.StaleError for the stale token.
package httpfence
