// Package session is the engine of a session: it grants an etcd lease, renews it, and reports at any
// moment whether what the session holds is still valid.
//
// Users know it as pawl.Session, and pass only lease.Options and lease.Handle.
// The rest is for the packages of this module that put keys on a session's lease.
//
// # What it guarantees
//
//  1. Validity counts from when a request was sent. A grant or a renewal moves the deadline to c + TTL
//     − margin. c was read before the request was written, from a clock that also runs during suspend;
//     TTL is what the server granted; margin is at least a sixth of it (rules T1, T2).
//  2. A renewal counts only when it is confirmed: after the server's answer, a linearizable read of the
//     session key on the same member must show the same raft term, a revision not older than what was
//     known, and the key as this session wrote it (N1). An answer alone proves nothing: a leader that
//     was deposed still confirms renewals of leases that are gone.
//  3. Err compares the clock with the deadline at each call. It trusts no timer or goroutine to have
//     run (T3).
//  4. What has ended stays ended. The first goroutine to see that the deadline has passed,
//     even the handler of a late answer, ends the session for good (T4).
//  5. Renewals begin after three tenths of the validity, which is a quarter of the TTL with the usual
//     margin, each on a new stream that is closed after the answer, and
//     consecutive ones on different members. Another member joins a renewal that is slow, so that no
//     single member, connection or stream can end a session (N2, N3). Each session sends its own
//     renewals, so that none depends on another (N4). RenewNow begins a renewal at once.
//  6. A session ends when it is closed or detached, when the server says that its lease or its key is
//     gone or was rewritten, when its deadline has passed (N5), when its cluster has changed (K4), when
//     Abandon ends it, or when an invariant of its book is broken. A failed renewal alone never ends it. The
//     first cause is final.
//  7. A session that ends is marked first, then its dependents are notified, then
//     what it left at the server is removed in the background (H1).
//  8. Detach hands the lease to another process; a Handle can be taken over
//     once, which a transaction checks (N6). A takeover renews before it
//     removes what its predecessor left open, and revokes nothing if it fails.
//
// # What it does not
//
// It cannot detect that a machine was frozen together with its clocks, and it cannot stop a write that
// was under way when validity ended. Fencing tokens are for that. It does not renew through etcd's
// grpc-proxy, which answers renewals from a cache. After a takeover the token stays the same, so
// storage cannot distinguish the two processes' late writes.
//
// # Failures
//
// Package lease lists the errors that say why a session has ended.
package session
