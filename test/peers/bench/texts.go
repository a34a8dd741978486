//go:build linux

package main

// The words of the page.
const (
	header = `# Performance

Written by ` + "`make performance`" + ` on %s: %d rounds in %s, on a machine with %s. The server
is one real etcd with its default settings in a process of its own, its data on %s, where a
write of 2 KiB that waits for the disk takes %v. etcd %s, clientv3 %s.

- **pawl** is this library. In a queue each waiter has a session of its own; "one session"
  is the same with one shared by all, which the peer cannot do.
- **clientv3**, the peer, is etcd's own ` + "`client/v3/concurrency`" + `.
- **floor** is the least that such work can cost: pawl's transactions, with its comparisons, sent by hand
  on the bare generated stubs by a client that assumes that nothing fails. Its waiter takes the
  deletion of the key before its own for the lock, without a query, which is not safe. In a queue,
  "own key watched" is the floor of a waiter that has to notice its own key's end too. "bounded" is the floor of
  requests that end with their caller's context or after 3 s, and of keys that say who holds them. "Together" is the floor that
  has transactions share requests as pawl does, without a look at whether they may.

The three take turns, each in a client process of its own, and the order changes from round to
round. Client and server share the machine. Figures are medians of the rounds, with the extremes
in parentheses; absolute ones are this machine's, ratios and counts travel.%s
`
	targetsText = `Ratios within a round, in which all three met the same machine; of the rows on releases, figures of pawl. Where sessions were kept one by one pawl took 1.75 and
1.18 times the CPU of the floor, client and server, with 100 in a client, and 2.15 and 1.65 times with 10,000: the targets of renewals are a half
and a quarter of that.

`
	budgetText = `What each operation cost, counted by the server (its ` + "`grpc_server_*`" + ` metrics), or in the client's
process. One release wakes one waiter, and the others send nothing: that, and each of these counts, is pinned by
tests too (` + "`lock/budget_test.go`" + `).

`
	uncontendedText = `Each worker acquires and releases a lock of its own, in one session. pawl's writes share requests where as many as
there are lanes are under way ([how](../decisions/together.md)); "alone" is the same with that turned off.

`
	delayedText = `The same as above through a proxy on the same machine that delays each byte by half a round trip, exactly to a tenth of a
millisecond or so, each way. What proxy and machine take comes on top.

`
	troubledText = "- `one-name`: 500 waiters of one session come at once to a lock that is held; until all are in the queue, with round trips of 30 ms.\n" +
		"  Their enqueues may not share requests.\n" +
		"- `given-up`: 500 waiters of one session give up, behind whom one of another waits; from the holder's release to that one's\n" +
		"  acquisition, with round trips of 30 ms.\n" +
		"- `lost-answers`: 1,000 enqueues, sent alone, were applied when the connection broke; until all have been settled and are held, a read of each\n" +
		"  queue included, which goes alone, with round trips of 30 ms.\n" +
		"- `no-space`: 200 releases beside 200 enqueues, which the server refuses for want of space; the share is of the releases that succeeded.\n" +
		"- `frozen`: 400 locks a second are acquired on three members, of which one that does not lead stops for three of six seconds; the share\n" +
		"  is of those that took longer than 500 ms from when they were due.\n\n"
	chainText = `All wait behind one holder; then the queue advances by itself. Of 5,000 waiters, and of 1,000 that hold for
5 ms, the first 300 take their turn, while the rest wait; 5,000 wait in the first round only. CPU, allocations and bytes are for a whole acquisition: to enqueue, to
wait, to release. Release to acquire is from the call of Release to the next one's return from Acquire.

`
	apartText = `No lock is held for any time, and each waiter has a session of its own. "In 20 processes" is 5, or 50, waiters in each, which
share its client, so that a waiter's neighbours in the queue are in other processes as a rule; "in 100 clients" is a client for each
waiter, in one process. "250 names of 4" is 1,000 waiters in 20 processes, four for each name; all names advance at the same time.

`
	tryText = `One worker. ` + "`try-held`" + ` finds the lock held; ` + "`try-free`" + ` takes it, and releases. clientv3 writes its key, and
deletes it again, to find out that a lock is held.

`
	heldText = `All in one session, each lock watched by who watches: clientv3 watches nothing, and does not notice a loss. "Heap" is
without garbage. 100,000 locks are held in the first round only.

`
	renewalsText = `For one session and one TTL, in processes that do nothing else. pawl has each renewal confirmed by a read; the sessions of a
client renew together, five times on one stream with one read for up to 128 of them ([how](../decisions/shared-renewals.md)), and one that has
its client to itself four times. clientv3 renews three times, unconfirmed, all on one stream. The floor renews four times on one stream, with
a read for each. "1 each" is clients of one session each. From 2,000 sessions on, they are kept in the first round only.

`
)
