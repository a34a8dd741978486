// Package grpcfence carries fencing tokens over gRPC: client interceptors that send the token of a call's context, and server interceptors that
// refuse stale ones before the service sees the call.
//
// The metadata key is fencing-token. Its value is the token in decimal, one space, and the resource, percent-encoded as a path segment, as in
// "57 jobs%2F42", or "57 jobs%2F42 shared" for the token of a shared lock: the header of package httpfence.
//
// # Guarantees
//
//  1. A client interceptor sends exactly one such value, with the innermost token of the call's context, or does not make the call.
//  2. Behind a server interceptor a call had a token when it came, that was at its admission not below the highest the gate had seen for the
//     resource; each message that a stream receives was admitted by itself when it came. The token is in the call's context.
//  3. All others are refused by the interceptor. The clients' interceptors turn a stale token's refusal into an error that matches *fencing.StaleError, and is
//     still the status.
//
// # What the service does
//
// An interceptor admits a call before its handler runs, and cannot keep a newer holder from being admitted while it runs. So a handler that writes
// asks once more, in one step with the write: the same Gate, under the mutex that guards what it writes, or the store's own guard (sqlfence …) with
// the token of the call's context. It returns Status of what was refused.
//
// A client states its own token, so authenticate clients first: one that sends a high token shuts the others out.
//
// # Refusals
//
//	FailedPrecondition  reason STALE_FENCING_TOKEN, metadata resource (percent-encoded), got, highest
//	FailedPrecondition  reason NO_FENCING_TOKEN
//	InvalidArgument     reason GARBLED_FENCING_TOKEN: of another form, or more than one
//
// each with a google.rpc.ErrorInfo of the domain "fencing.pawl" among the status's details.
package grpcfence
