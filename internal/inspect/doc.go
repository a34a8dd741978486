// Package inspect reads the locks and elections of a namespace: who holds, who waits, their queues,
// and the changes in them. It holds nothing, needs no session, and only Evict writes.
//
// [Read] reads a [Scope] once. [Follow] reads it, and then reports each change as an
// [Event]: enqueued, acquired, proclaimed, released, lost, gave up, ended.
//
// # What it guarantees
//
//  1. A [Snapshot] is the state at one revision of the cluster, read linearizably. An
//     Event is a committed change, at its Revision. The events of one queue come in
//     the order of their revisions, each once.
//  2. Holders are those that the waiters themselves see: the key with the lowest create
//     revision in a queue, the shared keys that follow a first one that is shared, and
//     each slot of a semaphore. The token is the create revision. The exchange of a
//     semaphore's turnstile key for a slot is an acquisition, and no end.
//  3. A follower resumes where it was when a stream, member or connection breaks.
//     Where it cannot, because the cluster compacted changes that it had not seen, it
//     reads the scope again and reports the differences with [Event.Unsure] set and
//     with unknown causes.
//  4. Its memory is bounded: about 500 bytes and the value's first KiB for each
//     position, at most 10,000 foreign keys (further ones are counted), and at most
//     4,096 changes or 16 MiB not yet taken by the reader, or one message.
//
// # How an end is classified
//
// etcd does not record who deleted a key. The end of a position is classified by the
// other contents of the same revision. The first match counts:
//
//	a mark of Evict                         lost: [Broken], by whom
//	a handoff to the next, naming the key   released: [HandedOn]. No other request writes that
//	the session's key is gone               lost: [LeaseEnded]. It expired, was revoked, or its
//	                                        session was closed before the lock was released
//	the session's key is still there        released: [KeyDeleted]. A release does that where
//	                                        nobody waits; so does etcdctl del
//	it is clientv3's, and another key of    lost: [LeaseEnded]
//	its lease went too
//	none of these                           ended: [Unknown], as with clientv3's keys, or where
//	                                        the session's keys may not be read
//
// A put on a holder's key that is neither a handoff nor a proclaimed value, or that
// detaches the key from its lease, means lost: [Overwritten].
//
// # What it does not
//
// Times are when this process learned of a change, by its clock. The waits and holds computed from
// them are off by the watch's delay. A holder that has yet to confirm is reported as acquired as
// soon as it is first. The keys alone say what is a lock and what an election: see [Position].
//
// # Failures
//
// Read, Follow and [Follower.Next] fail when the context ends, when the client ends,
// and when permission is denied. Every other failure is retried; Follow retries its
// first read for 12 s.
package inspect
