// Package ui serves a web page that shows the locks, elections and queues of a namespace live, with
// a timeline of who held what when. It consists of an [inspect.Follower] and of files that are
// compiled in.
//
//	GET  /              the page, and its files
//	GET  /api/state     what it shows, as JSON
//	GET  /api/events    the same, and then each change, as server-sent events
//	GET  /api/leases    how much time a queue's leases have left
//	GET  /api/shards    who works on the shards of each name
//	GET  /api/key       whether a request brings the key to break
//	POST /api/break     evicts a queue's holder; with [Options.Token] alone
//
// # What it guarantees
//
//  1. It follows the order of revisions. A browser that was disconnected gets the changes that it
//     missed, or the whole state, and shows the same as one that was not.
//  2. It changes nothing, unless Options.Token is set. Then it evicts a holder only
//     for a request that contains the token, does not come from another site, and names
//     the fencing token of the current holder.
//  3. The page may load only its own files, and run no inline script ([policy]). Names, owners and
//     values are shown as text.
//  4. It answers only to hosts that cannot be another site's: addresses, localhost,
//     and [Options.Hosts]. So a stranger's DNS name that points here gets no answer.
//  5. Its memory is bounded: 10,000 ended holds, 200 of one queue; 4 MiB of
//     changes for browsers that reconnect; 64 streams at a time, each at most 32
//     changes behind; and what the follower keeps.
//
// # What it does not
//
// It has no users and no TLS, so anyone who reaches the address sees what the client may read. The
// timeline begins when the page's server starts, and is gone when it ends. A holder at the
// beginning has held at the earliest since its key was put, according to the key's value. The page
// shows the first hundred positions of a queue, 20 names whose shards are shared out, and 200
// workers of each. Who works on shards is read every 5 s, and not followed.
//
// # Failures
//
// Open fails as inspect.Follow does. If following ends later, as when a permission is revoked, the
// page shows why, and since when, and tries again until it works. While a browser is connected, it
// reads from the cluster every 5 s, so that it can show when no answer comes.
//
// A browser opens six connections to a host, so its tabs share one stream (static/shared.js).
package ui
