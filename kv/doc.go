// Package kv makes transactions on etcd that apply only while a lock is still held.
//
// State in etcd itself needs no storage that checks tokens, because the transaction that writes it
// compares the lock's key in the same step.
//
//	res, err := client.KV().Txn(ctx, kv.Txn{
//		Guards: []kv.Guard{held.Guard()},
//		If:     []kv.Cond{kv.ModRevision("config", rev)},
//		Then:   []kv.Op{kv.Put("config", next)},
//		Else:   []kv.Op{kv.Get("config")},
//	})
//	switch {
//	case errors.Is(err, kv.ErrFenced): // no longer held: nothing was written
//	case errors.Is(err, kv.ErrUnknown): // may have been written: read it back
//	case err != nil: // not written
//	case !res.OK: // still held, but config has changed: res.Gets[0]
//	}
//
// # Guarantees
//
//  1. If any guard's lock is no longer held, neither Then nor Else applies, and the error matches
//     ErrFenced. etcd decides this in the transaction itself, without a clock.
//  2. If this process already knows that a guard's lock is lost, the transaction is refused before
//     anything is sent.
//  3. An error matches ErrUnknown if the transaction may have been applied, or may still be. With
//     any other error it was not applied and never will be.
//  4. Txn never sends a transaction that writes a second time after an unknown outcome.
//  5. Invalid arguments are reported before anything is sent.
//  6. Every transaction is linearizable. It sees all that was acknowledged before.
//  7. A Put made with OnSession puts its key on the session's lease, so that etcd deletes it when the
//     session ends.
//  8. Get and List are linearizable. List returns the state at one revision.
//
// # What it does not do
//
// It does not prefix Config.Namespace to keys, because they are the caller's. It keeps no cache. It
// does not resolve an unknown outcome. The caller, who knows what was written, reads it back. It makes
// no leases and no watches; see NewSession and Watch of pawl.Client.
//
// # Failures
//
//	ErrFenced                   a guard failed; nothing was applied
//	ErrUnknown                  it may have been applied
//	lease.ErrClosed             the client was closed
//	pawl.ErrClusterChanged      another cluster answers, or its revision went back
//	context.Canceled, DeadlineExceeded   ctx ended; ErrUnknown is matched too if it had been sent
//	anything else               not applied: bad arguments, no permission, nobody reachable …
package kv
