// Package watcher carries many watches of etcd keys on few streams, and keeps each one going through
// the loss of streams, members, leaders and auth tokens, without losing or repeating an event.
//
// A [Hub] belongs to one connection to a cluster. [Hub.Watch] adds a watch of a key or a range,
// starting at a revision. Its function is called with every change, until [Watch.Cancel], the
// compaction of events not yet delivered, a lasting refusal, or the end of the Hub or its cluster.
//
// # Guarantees
//
//  1. Every event of the watched keys is delivered, starting at the given revision or at the present,
//     in the order of revisions, once. All events of one revision come in one [Update], in the order of
//     their keys. What a server sends twice, late or out of order is sorted before it is delivered, and
//     keys outside the range are dropped. No answer comes in fragments, because etcd sends those only
//     on request.
//  2. A watch resumes at the revision of the last event delivered plus one. Only events move that
//     revision: headers, progress notices and acknowledgements of creations, which may be ahead of
//     events, never do. A watch from now ([Hub.WatchNow]) begins at the revision at which a server
//     first creates it, and learns a revision up to which it may have missed events. After that it
//     resumes like any other.
//  3. A watch's function is called by one goroutine at a time, even when the watch moves to another
//     stream, and without any lock that another method takes. No call starts after Cancel returned.
//  4. Watches are independent. Each has a separate creation at the server, and the end of one (by the
//     compaction of events not yet delivered, a denied permission, or a cancellation) ends no other.
//  5. A refusal counts for the creation that the server refused. etcd does not say which one that was,
//     but answers creations in order, so the refusal belongs to the first unanswered one. If a server
//     answers in another order, the stream is abandoned.
//  6. Silence is bounded. A stream is abandoned, and its watches resume on another member, if it does
//     not open within 3 s, if it does not answer a creation within 3 s after it was sent and the one
//     before it was answered, or if it has carried nothing for 5 s and then for 3 s more although it
//     was probed. What the server answers to the probe does not matter.
//  7. Every stream asks its member to end it when the member has no leader ("hasleader").
//  8. Every creation that a server acknowledged is cancelled at that server once its watch is
//     cancelled, by a cancel request, which waits up to 20 ms to be sent with others, or by the end of
//     the stream. A watch that is cancelled before its creation was sent costs no message.
//  9. Reopening is paced. The first try is made at once, on another member if there is one, and the
//     following ones after 50 ms to 1 s, with jitter.
//  10. Only answers of the cluster that was pinned are used.
//
// # What it does not guarantee
//
// The silence of a watch proves nothing. The key may be gone although no deletion was observed, because
// the watch may be late, refused again and again, or not yet created, without showing it. To learn the
// current state, query the cluster.
//
// There is no bound on how soon an event comes. In particular, etcd brings a watch that starts at or
// below the current revision up to date only with its next round, up to 100 ms later, after it
// acknowledged the creation; a watch from now has no such delay. grpc-proxy is not supported.
//
// # What it costs
//
// One stream carries up to 512 watches; another is opened when all are full. A stream costs two
// goroutines besides gRPC's own: one reads and processes the server's answers, the other does what is
// due. A stream without watches is closed after 2 s, so an idle Hub has no stream and no goroutine. A
// watch costs no goroutine, and no timer. A live watch of one key takes about 300 bytes and its key and
// function. The server gets one message for its creation and one for its cancellation. Creations do not
// wait for one another. While a stream is silent, the server also gets, every 5 s, a creation that it
// must refuse.
//
// # How it is built
//
// Each stream owns a table, which is a pure state machine. The stream passes its link's answers to the
// table under the Hub's mutex, and then makes the calls without the mutex.
//
// # How it ends
//
//	Update.Compacted > 0   events between what was delivered and this revision are gone: read again,
//	                       and watch from the revision of that reading plus one
//	Update.Err             permission denied, twice, at last with a fresh token (matched by the
//	                       status etcd gave); credentials demanded and none configured; a range
//	                       that is empty or too long; the Hub was closed (cluster.ErrClosed); the
//	                       cluster ended (its own error)
//
// After everything else (a stream's end with any gRPC code, silence, no leader, a token that expired,
// another cluster's answer, a server's cancellation or refusal for other reasons) the watch resumes,
// however long that takes, and nothing is reported.
package watcher
