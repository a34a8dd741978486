// Package pawlcertmagic keeps certmagic's certificates in etcd, under locks on the same etcd. It is
// a separate module, so that only its users depend on certmagic.
//
//	certmagic.Default.Storage = pawlcertmagic.New(client, pawlcertmagic.Options{})
//
// # What it guarantees
//
//  1. Of all processes that share the storage, one at a time has a lock, which has certmagic's
//     name. Goroutines of one process exclude each other likewise, even if the first has lost its
//     lock and not yet called Unlock.
//  2. After a lock is lost, etcd itself refuses what is stored or deleted under it, because
//     the transaction compares the lock's key. Guards reports which keys a lock guards.
//  3. Load returns what any process stored last: each read is linearizable.
//  4. An operation that is tried again acquires the lock again if it was lost meanwhile and nobody
//     else has it, because certmagic calls RenewLockLease before each try.
//
// # What it does not
//
// certmagic does not learn of a lost lock before it stores. Two processes may therefore order
// one certificate at once; only the later one is kept.
//
// # Keys in etcd
//
// A file is the key Options.Prefix + its path. Its value is the time of its writing (RFC 3339),
// a newline, and the contents.
package pawlcertmagic
