// Package pawltest is for the unit tests of programs that use pawl. It has an etcd in memory, which
// speaks real gRPC, and clients for it.
//
//	func TestOneAtATime(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			etcd := pawltest.New(t)
//			client := etcd.Client(t, pawl.Config{})
//			…
//		})
//	}
//
// What it promises:
//
//  1. The in-memory etcd answers as etcd 3.7 does; this repository runs one
//     conformance suite on both.
//  2. It works inside a testing/synctest bubble, where leases expire and
//     deadlines pass without any waiting, and outside of one, in real time.
//     Cluster, clients and the test that uses them belong to the same bubble.
//  3. Everything that was made is closed at the test's end, clients before their cluster, and no
//     goroutine is left.
//
// What can go wrong in production can be brought about here:
//
//	the session's lease is gone       Revoke
//	someone deletes the lock's key    Delete
//	etcd is not reachable             Cut, and Heal
//
// Storage tries whether your own storage refuses the holder of a lock that was lost.
//
// There is no TLS and no authentication. For tests against a real server, see
// package etcdtest.
package pawltest
