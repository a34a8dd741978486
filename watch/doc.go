// Package watch has the Options and the Events of a watch of etcd's keys. Client.Watch of package pawl
// makes one:
//
//	for ev, err := range client.Watch(ctx, "config/", watch.Options{Prefix: true, Values: true}) {
//		switch {
//		case err != nil: // ended: ctx's end, the client's, or a permission that is denied
//			return err
//		case ev.Gap > 0: // events were compacted away: read the keys again
//			reload()
//		case ev.Deleted:
//			remove(ev.Key)
//		default:
//			set(ev.Key, ev.Value)
//		}
//	}
//
// To keep a copy of keys up to date, read them in a transaction of package kv, with GetPrefix, and
// watch with Options.From set to its Result.Revision plus one. After a gap, read and watch again.
//
// # Guarantees
//
//  1. Every change of the watched keys, starting at the first revision, is yielded once, in the order
//     of revisions, except those in a gap.
//  2. A watch resumes where it was after the loss of members, leaders, connections and auth tokens. If
//     a member is silent, the watch moves to another one within 8 s.
//  3. A gap is yielded in its position, as an Event with Gap, and the watch continues after it.
//  4. The sequence ends after an error, or when the consumer breaks, and in no other way.
//  5. A slow consumer loses nothing unless the cluster compacts it. At most 4,096 changes or 16 MiB
//     wait for it, or one message. Later changes are watched again when it has taken those.
//
// # What it does not do
//
// It does not guarantee how soon an event comes. It proves no ownership, because a lock may be lost
// even if no deletion of its key was observed. It does not prefix Config.Namespace to keys.
//
// # Failures
//
//	context.Canceled, DeadlineExceeded   ctx ended; or the cause that it was cancelled with
//	lease.ErrClosed                      the client was closed
//	pawl.ErrClusterChanged               another cluster answers, or its revision went back
//	anything else                        bad arguments, or the role may not read the keys
package watch
