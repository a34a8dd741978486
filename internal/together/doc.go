// Package together sends the queue's writes: enqueues, releases, settles and removals. While
// requests are under way, further writes gather, and are then sent as one request: a
// transaction of transactions, each with comparisons, branches and an answer of its own. For
// client and server a request costs more than the writes in it, so fewer requests carry more
// writes.
//
// docs/decisions/together.md says why, and on which behaviour of etcd it rests.
//
// # What it guarantees
//
//   - G1. Only the queue's own writes share requests. A caller's writes, queries, session
//     keys, and everything in etcd's layout, where names nest, are sent alone.
//   - G2. An Ordered write, which is an enqueue, a take of a slot or a release that hands off, shares
//     a request with nothing else of its queues; a queue is all entries of one
//     name. Keys that one request makes have one create revision, so two holders
//     would have one token. And an enqueue beside the deletion of its predecessor
//     would see that key at the answer's own revision, and wait for ever for a key that
//     is gone. Plain writes only settle, delete or mark entries of their own session: any
//     number of them, even of one queue, share a request. Both halves are asserted where the request is made, from
//     the keys in it.
//   - G3. A query and Resume also read whether another key has the own key's create revision,
//     and then fail loudly (internal/queue/query.go). That detects a tie, and does not prevent
//     it; G2 does.
//   - G4. A lane is a request under way. There is one lane for each 300 µs of the smallest
//     recent round trip, at least 2 and at most 16. If a lane is free, a write is sent at
//     once, alone and unchanged. Otherwise it gathers. What has gathered is sent when a lane
//     is free, or when as many requests have ended as were under way when the first of it
//     came, at most 16, or at once when the request is full. The lane of a request of several
//     writes is free once each has its answer, and their callers have had a turn. A write that may
//     not join is sent at once, alone. A request without
//     an answer for max(300 ms, 3 round trips) occupies no lane, and its member is avoided.
//     Nothing else waits.
//   - G5. A request has at most 32 writes and 128 KiB. If a server answers "too many
//     operations" or "request too large", later requests are smaller.
//   - G6. The outcome of each write is its own. Applied: its own answer, with the request's
//     header. Not applied because of a member: all are sent to another member, like any
//     request. Refused because of the content: each is sent again alone, and gets its own
//     error. Unknown: unknown for each, and a request with a write that may not be
//     done twice is never sent twice.
//   - G7. A caller whose context ends returns at once. If its write is still waiting, the
//     write is removed and the outcome is "not applied"; otherwise it is "unknown". A request
//     has no caller's context, nor its values.
//   - G8. A session that ends removes its writes that are still waiting.
//   - G9. After a refusal because of the content, the writes of that queue, or of that
//     session, are sent alone for a while.
//   - G10. After "no space", puts and deletions do not share requests until a put
//     has succeeded, so that releases work on a full disk.
//   - G11. Writes share requests only while all known members report one minor version, one
//     that is known to be safe for this.
//
// # What it does not
//
// It makes no promise about the order of writes that are offered at the same time;
// nor does a cluster.
package together
