package main

// The words of the page.
const (
	intro = `# Scale

What one etcd cluster carries, where it ends, and how to go on from there. Written by ` + "`make scale`" + ` from the costs
in [performance.md](performance.md), which were measured on one member with %d cores that it shared with
its clients; the tables let it use %s of those cores. Scale the rates by your machine's.

A cluster of three does the same work on its leader, and the others apply it too, so it carries no more writes
than one member; reads, watches and renewals' streams are spread over its members. Each write also
waits for the second-fastest disk and a round trip between members.

## One cluster

`
	ends = `
Each row is by itself; what a cluster has to do adds up. etcd also keeps each key that was deleted in its index
until it is compacted, and a query of a queue walks over those of that queue, but for the asking session's own: with locks that
change hands between sessions thousands of times an hour, have etcd compact every few minutes (` + "`--auto-compaction-mode=periodic --auto-compaction-retention=5m`" + `).

## Where it ends

- **One queue.** A queue is handed on one by one. A handoff costs %s with 100 waiters, %s with 1,000 and
  %s with 5,000, because a query has the server walk the queue; and at most about %.0f a second can follow
  one another, at %s each. More clusters do not help one name. Fewer waiters do: let those who need not wait use
  TryAcquire, which is one read.
- **Sessions.** A session costs %s in each TTL, however many locks it has. Ten thousand
  processes with the default TTL of 15 s take %s of the cores, with 60 s %s. So: one session a process, as
  Client.Session gives it, and a longer TTL where a takeover may take longer.
- **Disk.** A write is 1 to 2 KiB in the log, and each group of them waits for the disk once. What a slow disk
  limits is one after the other: a handoff cannot be faster than one such wait.
- **Memory.** Watches are the server's main cost for what merely stands: a lock held has one, a waiter two, a session
  one. etcd's own limits on the database (2 GiB, ` + "`--quota-backend-bytes`" + `) are far: a lock's key is below 1 KiB, and up to 3 KiB
  while it carries a grant.

## Several clusters

` + "`pawl.Clusters`" + ` spreads names over clusters: each name is on the one whose label's hash with it is the highest, so all
processes agree without asking. A process has one session on each cluster that it uses. Of one name
everything holds that holds on one cluster. Across clusters there is no order:

- Tokens of one name go up. Tokens of names on different clusters must not be compared; give each name's token to the storage
  under that name, as the guards do.
- Nothing can be held "together": a session, and the locks on it, can be lost on one cluster and
  not on another, and one ` + "`kv`" + ` transaction can be guarded by locks of one cluster only. Who takes locks of several names
  takes them in one order, as ever.
- The session is on each cluster a cost of its own: more clusters do not make the renewals of a process fewer, they
  multiply them, where its names are everywhere. Where you can, give a process names of one cluster.

### Changing the set of clusters

A cluster may move to other machines: the label stays, and so do the names. Another set of labels moves names: a
label more takes its share of all, one less gives away its own. While one process uses the old set and another the
new, a name that moves can have two holders. So let nobody hold a name that moves while the set changes:

1. Find out what moves: ` + "`old.Label(name) != next.Label(name)`" + `.
2. Every process stops to acquire those names, and releases those that it holds. Names that stay are not touched.
3. When all have said so, and a TTL after the death of those that did not, nobody holds one.
4. Every process goes on with the new set.

Tokens of a name that moved come from another cluster's revision. Storage that has seen a higher one refuses the new holders:
that is safe, and stops the work. Start a new cluster with its revision raised above the others'
([operations.md](../how-to/operations.md), "Restoring a backup", says how), and set ` + "`Config.TokenFloor`" + ` of its Client to the highest
token that the storage has seen, so that an acquisition fails where the revision is not above it.

Who expects to grow begins with more labels than clusters: sixteen, say, each a ` + "`Config.Namespace`" + ` of its own on one
cluster. Later a label is moved by itself, in the same four steps, and the names of the other fifteen stay. Each label has
a session of its own, though.

`
	million = `## A million holders

Simulated: %s locks held by %s processes, %v each at the mean, %s of the acquisitions behind another holder, sessions with
a TTL of %v, clusters whose leaders have %d cores. Names are spread by ` + "`pawl.Clusters`" + ` itself; requests arrive at random, and
wait for a core. A request then also takes what it takes on a cluster with nothing to do.

`
	further = `
A process of this simulation has its locks on every cluster, so the renewals of one cluster stay what they were, and what is
left of its load when there are many clusters is those. The remedy is in the two rules above: a longer TTL, and processes
whose names are on few clusters.
`
)
