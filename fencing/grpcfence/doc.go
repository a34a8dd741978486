// Package grpcfence carries fencing tokens over gRPC. Client interceptors send the token of a call's
// context, and server interceptors refuse stale ones before the service sees the call.
//
// The metadata key is fencing-token. Its value is the token in decimal, one space, and the
// resource, percent-encoded as a path segment, as in "57 jobs%2F42", or "57 jobs%2F42 shared" for
// the token of a shared lock: the header of package httpfence.
//
// # Guarantees
//
//  1. A client interceptor sends exactly one such value, with the innermost token of the call's
//     context, or does not make the call.
//  2. Behind a server interceptor, every call came with a token that at its admission was not below the
//     highest the gate had seen for the resource. Each message that a stream receives was admitted
//     separately when it came. The token is in the call's context.
//  3. The interceptor refuses all other calls. The clients' interceptors turn the refusal of a stale
//     token into an error that matches *fencing.StaleError, and is still the status.
//
// # What the service does
//
// An interceptor admits a call before its handler runs, and cannot keep a newer holder from being
// admitted while it runs. So a handler that writes has the token of the call's context admitted once
// more, in one step with the write: by the same Gate, under the mutex that guards what it writes, or by
// the store's guard (sqlfence …). It returns Status of the refusal.
//
// A client states its own token, so authenticate clients first: one that sends a high token shuts
// the others out.
//
// # Refusals
//
//	FailedPrecondition  reason STALE_FENCING_TOKEN, metadata resource (percent-encoded), got, highest
//	FailedPrecondition  reason NO_FENCING_TOKEN
//	InvalidArgument     reason GARBLED_FENCING_TOKEN: of another form, or more than one
//
// each with a google.rpc.ErrorInfo of the domain "fencing.pawl" among the status's details.
package grpcfence
