// Package batch sends the queue's writes: enqueues, releases, settles and removals. While requests
// are under way, further writes gather, and are then sent as one request: a transaction of
// transactions, each with its own comparisons, branches and answer. For client and server a request
// costs more than the writes in it, so fewer requests carry more writes.
//
// It guarantees the rules G1, G2 and G4 to G11 of docs/explanation/safety.md, which the comments here
// cite. docs/decisions/batches.md says why, and on which behaviour of etcd it relies. The most
// important rule is G2. Keys that one request creates have the same create revision, so two holders
// would have the same token. And an enqueue in one request with the deletion of its predecessor would
// see that key at the answer's revision, and its watch would never show that it is gone.
//
// Like the cluster, it makes no promise about the order of writes that are offered at the same time.
package batch
