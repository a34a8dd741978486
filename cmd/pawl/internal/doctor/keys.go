package doctor

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/shard"
)

// keys checks the keys under the names.
func (d *doctor) keys(ctx context.Context, c *pawl.Client, namespace, prefix string) error {
	s, err := inspect.Read(ctx, c, inspect.Scope{Prefix: prefix})
	if err != nil {
		return err
	}
	known := map[string]string{} // the name that each key belongs to
	for _, l := range s.Queues {
		for _, p := range l.Queue {
			if p.Form != inspect.Foreign {
				known[p.Key] = l.Name
			}
		}
	}
	before := d.counts[isWrong] + d.counts[isOdd]
	d.layouts(s.Queues)
	d.kinds(s.Queues)
	for _, l := range s.Queues {
		if mixed := cli.Mixed(l); mixed != "" {
			d.odd("key", l.Prefix, mixed, "give each a name of its own, unless this is intended")
		}
		for _, p := range l.Queue {
			d.key(l, p, known[p.Key])
		}
	}
	if err := d.shards(ctx, c, prefix); err != nil {
		return err
	}
	if s.Ignored > 0 {
		d.odd("key", "", fmt.Sprintf("%d more keys are not locks, and were not checked", s.Ignored),
			"give pawl a --namespace of its own, or check a PREFIX")
	}
	if d.counts[isWrong]+d.counts[isOdd] == before {
		d.ok("key", "", "%s", lines(len(s.Queues)))
	}
	return nil
}

// shards finds the names some of whose shards nobody has.
func (d *doctor) shards(ctx context.Context, c *pawl.Client, prefix string) error {
	all, err := inspect.SharedOuts(ctx, c, prefix)
	for _, s := range all {
		for _, key := range s.Foreign {
			d.wrong("key", key, fmt.Sprintf("is no worker's key, but lies in the queue of a shard of %q: no worker behind it gets that shard", s.Name),
				"if nobody needs it: etcdctl del "+cli.ShellName(key))
		}
		left := s.Shards - s.Owned
		if left > 0 && s.Workers > 0 {
			resting := restingOf(ctx, c, s.Name)
			left = max(left-resting, 0)
			if resting > 0 {
				d.odd("key", s.Name, fmt.Sprintf("%s of %q rest, because they failed on several workers", cli.Count(resting, "shard"), s.Name), "the workers' logs say why; pawl shards --each shows which, and when they are tried again")
			}
		}
		switch {
		case s.Workers == 0:
			d.odd("key", s.Name, fmt.Sprintf("%s of %q held, and it has no worker", cli.Count(s.Owned, "shard"), s.Name), "the last worker is leaving, or its member key was deleted: look with pawl shards")
		case left > 0:
			d.odd("key", s.Name, fmt.Sprintf("%s of %q have no owner", cli.Count(left, "shard"), s.Name), "if that lasts for longer than the workers' TTL, look with pawl shards who plans and who cannot take them")
		}
	}
	return err
}

// restingOf is how many shards of a name have no owner on purpose.
func restingOf(ctx context.Context, c *pawl.Client, name string) int {
	for t, err := range shard.Observe(ctx, c, name) {
		if err == nil {
			return cli.Resting(t)
		}
	}
	return 0 // the keys that can be read say no more
}

// layouts finds the names that are used in both layouts.
func (d *doctor) layouts(queues []inspect.NamedQueue) {
	own := map[string]bool{}
	for _, l := range queues {
		own[l.Name] = own[l.Name] || !l.EtcdLayout && !l.Semaphore
	}
	for _, l := range queues {
		if l.EtcdLayout && own[l.Name] {
			d.wrong("key", l.Prefix, fmt.Sprintf("%q is used in etcd's layout and in pawl's own: two locks, which do not exclude each other", l.Name),
				"give all users of the name --etcd-layout (Options.EtcdLayout), or none")
		}
	}
}

// kinds finds the semaphores whose names a lock or an election has, too.
func (d *doctor) kinds(queues []inspect.NamedQueue) {
	other := map[string]string{}
	for _, l := range queues {
		if !l.Semaphore {
			other[l.Name] = l.Kind()
		}
	}
	for _, l := range queues {
		if kind := other[l.Name]; l.Semaphore && kind != "" {
			d.odd("key", l.Prefix, fmt.Sprintf("%q is the name of a semaphore and of a separate %s, which do not exclude each other", l.Name, kind),
				"give each a name of its own, unless this is intended")
		}
	}
}

func lines(n int) string {
	if n == 1 {
		return "1 name that somebody holds or waits for, with no other keys under it"
	}
	return fmt.Sprintf("%d names that somebody holds or waits for, with no other keys under them", n)
}

// key checks one position of a queue. home is the name to which its key belongs, if any.
func (d *doctor) key(l inspect.NamedQueue, p inspect.Position, home string) {
	breakIt := "pawl break "
	if l.EtcdLayout {
		breakIt += "--etcd-layout "
	}
	switch {
	case p.HasSlot():
		breakIt += fmt.Sprintf("--slot %d ", p.Slot)
	case len(l.Holders()) > 1:
		breakIt += fmt.Sprintf("--token %d ", p.Token)
	}
	breakIt += cli.ShellName(l.Name)
	blocks := "all keys behind it wait until it is gone"
	switch {
	case p.HasSlot():
		blocks = fmt.Sprintf("it holds slot %d of %q", p.Slot, l.Name)
	case p.Holds:
		blocks = fmt.Sprintf("it holds the name, %d wait behind it", len(l.Waiters()))
	}
	switch {
	case p.Form == inspect.Foreign && home != "":
		d.odd("key", p.Key, fmt.Sprintf("belongs to %q, and lies under %q: in etcd's layout names nest, and %s", home, l.Name, blocks),
			"choose names of which none contains another, or omit --etcd-layout")
	case p.Form == inspect.Foreign && p.Holds:
		d.wrong("key", p.Key, fmt.Sprintf("is not a lock's key, but lies under %q: %s", l.Name, blocks),
			"if nobody needs it: "+breakIt+"; and keep other keys out from under the names of locks")
	case p.Form == inspect.Foreign:
		d.odd("key", p.Key, fmt.Sprintf("is not a lock's key, but lies under %q: %s", l.Name, blocks),
			"if nobody needs it: etcdctl del "+cli.ShellName(p.Key))
	case p.Lease == 0:
		do := "if its holder is gone: etcdctl del " + cli.ShellName(p.Key)
		if p.Holds {
			do = "if its holder is gone: " + breakIt
		}
		d.wrong("key", p.Key, "has no lease, so it never expires: written by hand, or restored; "+blocks, do)
	}
}

// sessions checks the session keys and their leases.
func (d *doctor) sessions(ctx context.Context, c *pawl.Client) error {
	keys, err := inspect.Sessions(ctx, c)
	if err != nil {
		return err
	}
	var ids []int64
	for _, k := range keys {
		ids = append(ids, k.Lease)
	}
	leases, err := inspect.Leases(ctx, c, ids...)
	if err != nil {
		return err
	}
	before, n := d.counts[isWrong]+d.counts[isOdd], 0
	for _, k := range keys {
		if !k.Below && k.KeyLease != 0 {
			n++
		}
		d.session(k, leases[k.Lease])
	}
	if d.counts[isWrong]+d.counts[isOdd] == before {
		d.ok("session", "", "%d, each on its lease and renewed", n)
	}
	return nil
}

func (d *doctor) session(k inspect.SessionKey, l inspect.Lease) {
	switch {
	case k.Lease == 0:
		d.wrong("session", k.Key, "has no lease, so it never expires: written by hand, or restored",
			"if no session of that name is alive: etcdctl del "+cli.ShellName(k.Key))
	case k.Below:
	case k.KeyLease == 0 || k.KeyLease != k.Lease:
		d.odd("session", k.Key, fmt.Sprintf("is on lease %x, which it does not name: no session wrote it", k.Lease),
			"if nobody needs it: etcdctl del "+cli.ShellName(k.Key))
	case l.Gone || l.Granted == 0:
		return // it has ended meanwhile
	case l.Left < l.Granted/2:
		d.odd("session", k.Key, fmt.Sprintf("%s has not renewed it for %s: it is stopped, cut off from the cluster, or dead; its locks expire in %s",
			cli.Plain(cmp.Or(k.Owner, cli.Who(k.Position))), cli.Span(l.Granted-l.Left), cli.Span(l.Left)),
			"check that process; if it is dead, wait, or end its lease now: etcdctl lease revoke "+cli.LeaseHex(k.Lease))
	}
}
