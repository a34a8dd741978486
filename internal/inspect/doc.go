// Package inspect says who holds and who waits: the locks and elections of a
// namespace, with their queues, and what changes in them. It holds nothing, needs
// no session, and writes nothing but for Evict.
//
// [Read] reads a [Scope] once. [Follow] reads it, and then tells each change as an
// [Event]: enqueued, acquired, proclaimed, released, lost, gave up, ended.
//
// # What it guarantees
//
//  1. What it tells was so: a [Survey] is the state at one revision of the cluster,
//     read linearizably; an Event is a change that was committed, at its Revision.
//     Those of one line come in the order of revisions, each once.
//  2. Whoever is first in a line by its create revision is told as its holder, as
//     those who wait see it. The token is the create revision.
//  3. A follower resumes where it was, whatever stream, member or connection
//     breaks. Where that cannot be, because the cluster compacted what it had still
//     to see, it reads anew and tells what is different with [Event.Unsure] set, and
//     with causes unknown.
//  4. Its memory is bounded: about 500 bytes and the value's first KiB for each
//     place, at most 10,000 keys of nobody's form (those beyond are counted), and at
//     most 4,096 changes or 16 MiB not yet taken by the reader, or one message.
//
// # How an end is told
//
// etcd does not record who deleted a key. A place's end is judged by what stands in
// the same revision, first match first:
//
//	a mark of Evict                         lost: [Broken], by whom
//	a grant to the next that names the key  released: [HandedOn]. No other request writes that
//	the session's key is gone               lost: [LeaseEnded]. It expired, was revoked, or its
//	                                        session was closed before the lock was released
//	the session's key is still there        released: [KeyDeleted]. A release does that where
//	                                        nobody waits; so does etcdctl del
//	another key of its lease went too       lost: [LeaseEnded] (sessions of clientv3)
//	none of these                           ended: [Unknown], as with clientv3's keys, or where
//	                                        the session's keys may not be read
//
// A put on a holder's key that is neither a grant nor a proclaimed value, or that
// takes the key off its lease, means lost: [Overwritten].
//
// # What it does not
//
// Times are this process's, of when it learned of a change; the waits and holds
// made of them are right to the watch's delay. A holder with lock.Options.Delay,
// or one that has yet to confirm, is told as acquired from when it is first. What
// counts as lock or election is told by the keys alone: see [Place].
//
// # Failures
//
// An error of Read or Follow, and of [Follower.Next], is the context's, the end of
// the client, or a permission that is denied; everything else is tried again,
// Follow's first reading for 12 s.
package inspect
