// Package etcdtest runs a real etcd server in a test's own process, on
// loopback, ready in a fraction of a second.
//
//	func TestWithEtcd(t *testing.T) {
//		s := etcdtest.Start(t)
//		client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
//		…
//	}
//
// What it promises:
//
//  1. Start returns when the server has a leader and serves requests.
//  2. The server, its data and its goroutines are gone when the test is over.
//  3. Its ports stay its own from Start to the test's end, Stop and Restart
//     included: no other process can take them in between.
//  4. It says nothing on the test's output.
//
// The server does not wait for its disk and elects quickly (see Options): a
// crash of the machine could lose something, and leases may be as short as 1 s. For tests that need no real
// server, package pawltest is faster and works in a testing/synctest bubble.
package etcdtest
