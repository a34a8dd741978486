// Package together is how the queue's writes leave: enqueues, releases, settles
// and removals. Where requests are under way already, what comes up gathers
// meanwhile, and goes as one request of transactions inside a transaction, each
// with comparisons, branches and an answer of its own. A request costs client and
// server more than all that is decided in it, so fewer of them carry more.
//
// docs/decisions/together.md says why, and what of etcd it rests on.
//
// # What it guarantees
//
//   - G1. Only the queue's own writes travel together. What a caller writes,
//     questions, session keys, and everything in etcd's layout, where names nest,
//     go alone.
//   - G2. An Ordered write, which is an enqueue or a release that hands off, shares
//     a request with nothing else of its queues, and a queue is all entries of one
//     name. Keys that were made together have one create revision, and two holders
//     would have one token; and an enqueue beside the deletion of its predecessor
//     would see it at the answer's own revision, and wait for ever for what has ended.
//     Plain writes touch their own keys alone: any number of one queue share a request.
//     Both halves are asserted where the request is made, from what it holds.
//   - G3. Who queries its position, or resumes, looks for another key with its
//     own create revision, and fails loudly (internal/queue/query.go). That detects,
//     and does not protect; G2 protects.
//   - G4. A lane is an attempt under way. There is one for each 300 µs of
//     the least recent round trip, 2 at the least and 16 at the most. With one free a write goes at once, by itself and as it is.
//     Otherwise it joins what gathers, which goes when there is a lane again, or as many
//     attempts as there are lanes have ended, or at once when it is full. What cannot join goes at once, alone. An attempt without an
//     answer for max(300 ms, 3 round trips) holds no lane, and its member is passed
//     over. Nothing else waits.
//   - G5. At most 32 writes and 128 KiB in a request. A server that says "too many
//     operations" or "request too large" is believed.
//   - G6. The outcome of each is its own. Applied: its own answer, with the request's
//     header. Not applied because of a member: all go elsewhere, as any request
//     does. Refused for what it holds: each is sent again alone, and gets its own
//     reason. Unknown: unknown to each, and a request of which anything may not be
//     done twice is never sent twice.
//   - G7. A caller whose context ends returns at once: with "not applied" while its
//     write waits, which is taken out, and else with "unknown". No caller's context,
//     nor its values, is the request's.
//   - G8. A session that ends takes out what waits.
//   - G9. After a refusal for what it holds, the queue, or the session, that it was
//     for goes alone for a while.
//   - G10. After "no space", what puts and what only deletes travel apart until a put
//     has succeeded: releases work on a full disk.
//   - G11. Writes travel together while all members that are known report one minor
//     version, of which nothing is known that speaks against it, and not before.
//
// # What it does not
//
// It makes no promise about the order of writes that are offered at the same time;
// nor does a cluster.
package together
