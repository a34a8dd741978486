// Package locks joins the table of pawld's clients with the engine: it queues for them,
// carries out what the table says, and parks requests until there is something to say.
//
// All locks of all clients hang on one session of pawld's own at etcd. What a client
// learns of a lock was promised to the engine first, so that the key stays for as long as
// that client may believe, whatever ends that session (rule V4).
//
// One mutex guards the table. It is not held during a request to etcd.
package locks
