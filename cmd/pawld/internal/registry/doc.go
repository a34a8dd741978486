// Package registry holds what pawld knows of its clients: their sessions, and in each the locks and
// the positions in queues. It is pure. It gets the time as an argument, does no I/O, and returns
// what to do as effects. Its caller guards it with a mutex.
//
// What it guarantees, where h is the TTL of a client's session, D is the deadline of pawld's
// session at etcd, and all times are on one clock that runs during a suspend:
//
//   - V1 expiry = max(expiry, arrival + h) for each request of the session, where arrival is read
//     when the request came in. Once a session was found to have expired, it stays expired.
//   - V2 An answer lists a lock as held with 5/6 of end - arrival, rounded down, where
//     end = min(expiry, D, acquired + max hold).
//   - V4 Before it does, end is promised. Until then the key is not removed, except by the client's
//     Release, or after the exit of the one process that can believe. The engine learns of it by
//     Holding.Promise.
//   - V5 What ends a lock makes it lost in the next answer.
//   - V6 Session and request, both chosen by the client, name a lock. A repeat finds the same lock
//     or position. With other parameters it is refused. A Release of an unknown one leaves a
//     tombstone, so that a late Acquire is refused.
//   - V8 A lock that is taken from a client is forfeited, which is no release.
//   - V9 A position that was not polled for h is given up, and a lock that no answer has listed is
//     released h after it was won. After pawld stalled for more than h/6, every expiry is h from
//     now.
//
// V3, which is the client's part, and V7, which says that a broken connection has no meaning, need
// nothing here.
package registry
