// Package locks connects the table of pawld's clients with the engine: it queues for them,
// carries out the table's effects, and parks requests until there is news.
//
// All locks of all clients are held on one session of pawld's own at etcd. Before a client
// learns that it holds a lock, that was promised to the engine, so that the key stays for as
// long as the client may believe it, whatever ends that session (rule V4).
//
// One mutex guards the table. It is not held during a request to etcd.
package locks
