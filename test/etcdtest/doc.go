// Package etcdtest runs a real etcd for tests, on loopback. Start runs one server in the test's
// process, ready in a fraction of a second. StartCluster runs a cluster of processes, whose
// members, networks and disks can be given faults.
//
//	func TestWithEtcd(t *testing.T) {
//		s := etcdtest.Start(t)
//		client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
//		…
//	}
//
//	func TestLosesItsLeader(t *testing.T) {
//		c := etcdtest.StartCluster(t, 3)
//		client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: c.Endpoints()})
//		…
//		c.Leader(t).Kill()
//		…
//	}
//
// A server that many tests share is started with New, in a TestMain, and ended with
// Server.Close.
//
// What it promises:
//
//  1. Start and StartCluster return when there is a leader and requests are
//     served.
//  2. Servers, their data, processes and goroutines are gone when the test is over, or Close is
//     called. Processes also end when the test process is killed.
//  3. Their ports stay reserved from the start to the test's end, even during Stop, Kill and
//     Restart, so no other process can take them. (etcd 3.4, which ClusterOptions.Binary may name,
//     cannot share them.)
//  4. They write nothing to the test's output, except why etcd ends the process. Member.Log has a
//     member's log.
//  5. A fault is in force when its method returns, and concerns the member it
//     names and no other.
//
// What can be brought about on a cluster:
//
//	a crash, and what comes after        Member.Kill, Restart, Start
//	a process that hangs                 Member.Pause, Resume
//	a member cut off from its peers      Member.Isolate, IsolateInbound, IsolateOutbound
//	a member cut off from its clients    Member.BlackHole, HoldRequests, HoldAnswers, Cut, Reset
//	a slow network                       Member.Slow
//	a disk that hangs                    Member.StallDisk
//	another leader                       Cluster.MoveLeader
//	a full database                      Cluster.FillQuota, FreeQuota
//	maintenance                          Cluster.Compact, Defragment
//	new certificates                     Cluster.RotateCertificates
//	authentication                       Cluster.EnableAuth, DisableAuth, ExpireTokens
//	other members                        Cluster.AddMember, RemoveMember, ReplaceMember
//	the end of it all                    Member.Heal, Cluster.Heal
//
// It cannot lose single packets, a member's clock is the machine's, and disks neither fill up nor
// lose what they confirmed.
//
// The servers do not wait for their disks unless a test says so, so a crash of the machine could
// lose something. Start's server elects quickly (see Options), so leases may be as short as 1 s.
// For tests that need no real server, package pawltest is faster and works in a testing/synctest
// bubble.
package etcdtest
