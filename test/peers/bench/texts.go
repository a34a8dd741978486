//go:build linux

package main

// The words of the page.
const (
	header = `# Performance

Written by ` + "`make performance`" + ` on %s: %d rounds in %s, on a machine with %s. The server
is one real etcd in a process of its own, its data on %s, where a
write of 2 KiB that waits for the disk takes %v. etcd %s, clientv3 %s.

- **pawl** is this library. In "one session" all waiters of a queue share one; otherwise each has its own.
- **clientv3**, the peer, is etcd's own ` + "`client/v3/concurrency`" + `.
- **floor** sends pawl's transactions on the bare generated stubs, and assumes that nothing fails. "Own key watched" also watches each waiter's key,
  "bounded" gives each request a deadline, and "batched" shares requests as pawl does.

All take turns, each in a client process of its own, in an order that changes from round to
round. Client and server share the machine. Figures are medians of the rounds, with the extremes
in parentheses. Compare ratios and counts across machines, not absolute figures.%s

[The rest of the data](performance/data.md): networks, queues, three members, faults, shards, sessions, modes, pawld. ` + "`make performance`" + ` repeats all of it in 47 minutes, and
` + "`go run ./test/peers/bench -only NAME`" + ` one scenario.
`
	briefText = `With many workers, pawl's writes share requests. A pawl waiter that has just come watches from the present on, which etcd serves at once.
clientv3's watch begins in the past, and etcd serves it up to 100 ms later. pawl watches a lock that is held, which takes memory.

`
	missedText = `Targets that not every round has met. A figure of two clients is a ratio of the same round, so that both met the same machine. ` + "`make targets`" + ` prints all of them, with each round.

`
	dataHeader = `# Performance, the rest of the data

What [performance.md](../performance.md) leaves out, from the same run: it says who the clients are, and how to repeat it.
`
	budgetText = `The cost of each operation, counted by the server (its ` + "`grpc_server_*`" + ` metrics) or in the client's
process. One release wakes one waiter, and the other waiters send nothing (pinned by ` + "`lock/waiting_test.go`" + `). Tests pin the budgets, some with fewer waiters or
locks: ` + "`test/real/lock/real_test.go`" + ` that of allocations and their bytes, ` + "`internal/session/renew_test.go`" + ` that of renewals,
and ` + "`lock/budget_test.go`" + ` the others.

`
	uncontendedText = `Each worker acquires and releases a lock of its own; all workers share one session. When several of pawl's writes are under way at once, further
writes share requests ([how](../decisions/batches.md)); in "pawl, alone" that is turned off, and only the count of requests under way is left of it.
"Requests" are those of an acquisition and its release.

`
	delayedText = `As above, through a proxy on the same machine that delays each byte by half a round trip each way, exact to about a tenth of a
millisecond. The time that proxy and machine use is added to that.

`
	faultyText = "Round trips take 30 ms, except in `no-space`, `first-lock` and `frozen`.\n\n" +
		"- `one-name`: 500 waiters of one session arrive at once at a lock that is held. The time is until all are in the queue.\n" +
		"  Their enqueues may not share requests.\n" +
		"- `given-up`: 500 waiters of one session give up. The time is from the holder's release to the acquisition by a waiter of\n" +
		"  another session behind them.\n" +
		"- `lost-answers`: 1,000 enqueues, sent alone, were applied, but their answers were lost. The time is from when they fail\n" +
		"  until all are settled and their locks are held.\n" +
		"- `no-space`: 200 releases and 200 enqueues are made at the same time; the server refuses the enqueues for want of space. The share is of the\n" +
		"  releases that succeeded.\n" +
		"- `first-lock`: nine clients, one after the other, connect, grant a session and acquire a lock on three members, one of which, not the leader, is\n" +
		"  stopped. The first address of every third is the stopped one's. p99 is the slowest.\n" +
		"- `frozen`: 400 locks a second are acquired on three members. One member that does not lead stops for three of six seconds. The\n" +
		"  share is of the acquisitions that took longer than 500 ms from when they were due.\n\n"
	chainText = `All waiters wait behind one holder; then the lock passes from one to the next. Of 1,000
waiters and more, only the first 300 acquire the lock, while the rest wait. 5,000 waiters are measured in the first round only. CPU, allocations and bytes are for a whole acquisition: to enqueue,
to wait and to release. "Release to acquire" is the time from the call of Release to the return of the next waiter's Acquire.

`
	apartText = `No lock is held for any time, and each waiter has a session of its own. "In 20 processes" means that each process has 5 or 50 waiters, which
share its client. So the neighbours of a waiter in the queue are usually in other processes. In "in 100 clients" each waiter has a client of its own,
and all are in one process. "250 names of 4" is 1,000 waiters in 20 processes, four for each name; the locks of all names pass on at the same time.

`
	threeText = `The same, on a cluster as users have it: three members, each a process of its own, on this machine. They share its processors and its disk
with each other and with the client. pawl and clientv3 spread their requests over all of them; the floor sends its own to the first.

`
	tlsText = `As "Uncontended locks", on servers that serve their clients with TLS, and gRPC and HTTP on one address, as most clusters do.
In plain text the server measures its bandwidth. It pings after nearly each request, and each acknowledgement is a write and a wake-up of the client: one worker writes four
times for a lock and its release. With TLS on one address it does not, and a worker writes twice, so nothing could be saved by acknowledging less.

`
	busyText = `One client holds a lock; another begins to wait for it, and so long later the first releases. Meanwhile others write so many
keys a second that have nothing to do with the lock. In "one-client" both are sessions of one client. "permit" is the one slot of a semaphore (of clientv3 a lock), and "set" eight names
at once (of clientv3 one after another). "election" is a campaign that follows a resignation. etcd serves a watch that begins at a revision that has passed only at its next tick, up to 100 ms later.

`
	shardsText = "64 shards are shared out among 8 workers, 1,000 among 50; each worker has a session and a client of its own. All start. Nothing happens (\"rest\": of one\n" +
		"worker for one TTL, its renewals included); one more joins, one leaves in order, and one is cut off, with a TTL of 5 s (\"death\"). Each of 8 in turn leaves and is\n" +
		"replaced (\"rolling\"). \"Without an owner\" is from the return of one owner's work, or from the cut, to the call of the next one's. Planning waits for a second\n" +
		"after each change. Those that happen but once, and those of 1,000 shards, are measured in the first round only.\n\n"
	tryText = `One worker. ` + "`try-held`" + ` tries to acquire a lock that is held; ` + "`try-free`" + ` acquires a free one and releases it. To find out that a lock
is held, clientv3 writes a key and deletes it again.

`
	heldText = `All locks are in one session. pawl watches the key of each lock. clientv3 watches none, and so does not detect the loss of a key. "Heap" is
measured after a garbage collection. 100,000 locks are held in the first round only.

`
	renewalsText = `For one session and one TTL, in processes that do nothing else. pawl confirms each renewal with a read. Each session renews four times, on one
stream a renewal, with a read for each ([why](../../decisions/own-renewals.md)). clientv3 renews two to three times, unconfirmed, all sessions on one stream. The floor renews four times on one stream, with
a read for each. In "1 each" every client has one session. 100 to 1,000 sessions
are measured in the first three rounds only, 2,000 and more in the first.

`
)
