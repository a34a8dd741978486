// Package matrix runs every fault in every phase of a lock's life, and while
// workers share shards out, on real clusters, and checks each cell from outside.
//
// The tables are in faults_test.go and phases_test.go. Each is run twice, as access_test.go says:
// over plain connections, and with a password, over TLS, through an interceptor that repeats
// requests. A cell is one fault that strikes while one phase is under way, and is healed. An oracle
// checks each cell. It reaches the members past their proxies and shares nothing with pawl but a
// clock:
//
//  1. One holder at any instant, or readers, and tokens that increase (package history).
//  2. A token is the create revision of its key, as the oracle saw it.
//  3. Of writes under a guard, in the order of their revisions, the tokens never decrease.
//  4. A session lives through every fault of a single member, and through everything that is
//     shorter than its TTL, if its process was scheduled. See fixture.survives.
//  5. A loss that the oracle saw is noticed within the session's TTL.
//  6. After the heal the lock can be taken, and when the clients have closed no
//     key and no lease of theirs is left.
//  7. No goroutine is left at the end.
//
// Package simulate checks, in bubbles, that every call returns when its context ends.
//
// In go test each fault strikes once, in one phase or another, on few clusters. In make proof
// (package testscale) all cells run. A cell that fails prints the command that repeats it.
//
// The soak makes separate processes compete while the same faults strike at random, for one short
// round, in the proof for 90 s, or for as long as PAWL_SOAK says (1h). It writes its results into
// the page that PAWL_SOAK_PAGE names.
package matrix
