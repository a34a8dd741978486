// Package service connects the registry of pawld's clients with the engine. It queues for them, carries
// out the registry's effects, and parks requests until there is news.
//
// All locks of all clients are held on pawld's session at etcd. Before a client learns that it
// holds a lock, the lock is promised to the engine, so that the key stays for as long as the client
// may believe that it holds the lock, whatever ends that session (rule V4).
//
// A successor is left what is held, and what was lost since pawld began to stop, because no client has
// learned of that loss. It takes over what it can, and keeps the keys of the rest for as long as a
// client may believe.
//
// One mutex guards the registry. It is not held during a request to etcd.
package service
