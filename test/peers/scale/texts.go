package main

// The words of the page.
const (
	intro = `# Scale

This page estimates what one etcd cluster carries, what its limits are, and how to use several clusters. ` + "`make scale`" + ` writes it from the costs
in [performance.md](performance.md). They were measured on one member with %d cores that it shared with
its clients; the tables let it use %s of those cores. Scale the rates to your machine.

In a cluster of three, the leader does the same work, and the other members apply it too. So the cluster carries no more writes
than one member. Reads, watches and the streams of renewals are spread over the members. Each write also
waits for the second-fastest disk and a round trip between members.

## One cluster

`
	ends = `
Each row assumes that the cluster does nothing else; add up the rows that apply. etcd also keeps each deleted key in its index
until the next compaction, and a query of a queue reads the deleted keys of that queue, except those of its own session. If locks
change hands between sessions thousands of times an hour, have etcd compact every few minutes (` + "`--auto-compaction-mode=periodic --auto-compaction-retention=5m`" + `).

## Limits

- **One queue.** A lock passes from one waiter to the next. That costs %s of CPU with 100 waiters, %s with 1,000 and
  %s with 5,000, because a query makes the server read the queue. At most about %.0f handovers of one lock can follow
  each other in a second, at %s each. More clusters do not help a single name. Fewer waiters do: programs that need not wait should use
  TryAcquire, which is one read.
- **Sessions.** A session costs %s of CPU in each TTL, however many locks it has. Ten thousand
  processes with the default TTL of 15 s take %s of the cores, with 60 s %s. So use one session for each process, as
  Client.Session returns it, and a longer TTL if a takeover may take longer.
- **Many waiters of one name.** An enqueue reads the last key before its own, for which etcd looks at all keys of the queue. So n waiters that come one after the other cost the square of n,
  with etcd's client as with pawl: a thousand half a million keys, 20,000 two hundred million, which takes etcd minutes. Everybody else's writes wait behind each of these reads. A few thousand waiters of one name are
  enough; pawl admits fewer enqueues at once the more a session has, so that the holder's renewals come through ([why](../decisions/many-keys.md)).
- **Many keys of one session.** With a password whose role is not root, etcd checks all keys of a lease at each put on it, which takes about 1.1 µs a key. Up to a thousand locks of a session this does not matter. Above that use several sessions; pawl says so once, in the log.
  ` + "`shard.Run`" + ` does it by itself: at most 500 keys are on one lease.
- **Disk.** A write is a few hundred bytes in the log, and each group of writes waits for the disk once. A slow disk limits writes that
  follow each other: a handover cannot be faster than one such wait.
- **Memory.** For locks that are only held, watches are the server's main cost: a held lock has one, a waiter two, a session
  one. etcd's own limit on the database (2 GiB, ` + "`--quota-backend-bytes`" + `) is far away: a lock's key takes less than 1 KiB, and up to 3 KiB
  while it has a handoff.

## Several clusters

` + "`pawl.Clusters`" + ` spreads names over clusters. Each cluster has a label. A name is on the cluster whose label and the name have the highest hash together, so all
processes agree without communication. A process has one session on each cluster that it uses. For a single name,
everything is as on one cluster. Across clusters there is no order:

- Tokens of one name increase. Tokens of names on different clusters must not be compared. Give each name's token to the storage
  under that name, as the guards do.
- Locks on different clusters cannot be held as a unit. A session, and the locks on it, can be lost on one cluster and
  not on another, and one ` + "`kv`" + ` transaction can be guarded by locks of one cluster only. A program that takes locks of several names
  must take them in a fixed order.
- Each session has its own cost. If the names of a process are on all clusters, more clusters do not reduce its renewals, but
  multiply them. If possible, give a process names of one cluster.

### Changing the set of clusters

A cluster can move to other machines: its label stays, and so do its names. But another set of labels moves names. A new
label takes its share of all names, and the names of a removed label are distributed. While one process uses the old set and another the
new one, a moved name can have two holders. So nobody may hold such a name while the set changes:

1. Find the names that move: ` + "`old.Label(name) != next.Label(name)`" + `.
2. Every process stops acquiring those names, and releases those that it holds. All other names are unaffected.
3. When all processes have confirmed that, and a TTL after the death of those that did not, nobody holds a moved name.
4. Every process continues with the new set.

Tokens of a moved name come from the revision of another cluster. Storage that has seen a higher token refuses the new holders:
that is safe, but stops the work. So start a new cluster with its revision raised above those of the others
([operations](../how-to/operations.md#restoring-a-backup) says how), and set ` + "`Config.TokenFloor`" + ` of its Client to the highest
token that the storage has seen. Then an acquisition fails if the revision is not above it.

If you expect to grow, start with more labels than clusters, for example sixteen, each a ` + "`Config.Namespace`" + ` of its own on one
cluster. Later you can move a single label in the same four steps, and the names of the other fifteen stay. But each label has
a session of its own.

`
	growing = `
## What grows

These are costs that could grow with their size or with the past, at the two greatest sizes that ` + "[make growth](growth.md)" + ` played. A slope of 0
means that the cost stays the same, 1 that it grows as the size does, and 2 as its square. What is about all of a size, such as a list of a queue, has
a slope of 1 at best.

%s
`
	million = `## A million holders

The simulation has %s locks held by %s processes, for %v each on average. %s of the acquisitions wait behind another holder. Sessions have
a TTL of %v, and the leaders of the clusters have %d cores. ` + "`pawl.Clusters`" + ` itself spreads the names. Requests arrive at random and
wait for a core. The time of a request on an idle cluster is added to that wait.

It follows from the costs of the first table: an acquisition that nobody contends takes %s (` + "`uncontended-64`" + `), one that waits %s (` + "`chain-100-hold-0s`" + `), a session %s
in a TTL (` + "`renewals-apart`" + `), and memory is that of ` + "`held-many`" + `, ` + "`chain-5000-hold-0s`" + ` and ` + "`renewals-many`" + `. A cluster of three on disks of its own carries as many writes as one member, and its
acquisitions take longer by its network and its second-fastest disk (` + "`past-on-three`" + `). If it compacts every %v, each name has changed hands %.0f times in between, which by
` + "`past-lock`" + ` adds %.1f µs to an acquisition. No figure of the table above grows with the number of names.

`
	further = `
Each process of this simulation has locks on every cluster. So the renewals on one cluster do not decrease with more clusters, and
with many clusters they are most of its load. Two measures help, as described above: a longer TTL, and processes
whose names are on few clusters.
`
)
