// Package together sends the queue's writes: enqueues, releases, settles and removals. While
// requests are under way, further writes gather, and are then sent as one request: a
// transaction of transactions, each with comparisons, branches and an answer of its own. For
// client and server a request costs more than the writes in it, so fewer requests carry more
// writes.
//
// What it guarantees are the rules G1, G2 and G4 to G11 of docs/explanation/safety.md, which the
// comments here cite; docs/decisions/together.md says why, and on which behaviour of etcd it
// rests. Most depends on G2: keys that one request makes have one create revision, so that two
// holders would have one token; and an enqueue beside the deletion of its predecessor would see
// that key at the answer's own revision, and wait for ever for a key that is gone.
//
// It makes no promise about the order of writes that are offered at the same time;
// nor does a cluster.
package together
