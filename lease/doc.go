// Package lease has the parts of a session that users write and read: its Options, the Handle with
// which another process takes it over, and the errors that say why it has ended. The session itself is
// pawl.Session.
//
//	s, err := client.NewSession(ctx, lease.Options{TTL: 10 * time.Second})
//	…
//	if errors.Is(s.Err(), lease.ErrExpired) { … }
//
// # Why a session has ended
//
//	ErrExpired  the deadline passed before a renewal was confirmed; its text names the last failure
//	ErrRevoked  the server says that the lease, or the session key, is gone, or that somebody
//	            rewrote the session key, as a takeover does
//	ErrClosed   this process ended it: Close, Detach, or the client's Close
//	(an error that matches pawl.ErrClusterChanged)  another cluster answers
//
// A permission that was lost for good, a full disk, and unreachable members all show as ErrExpired,
// with the last error in its text, because until the deadline they may be temporary.
package lease
