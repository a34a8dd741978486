package shard

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Table is who works on the shards of a name, at one revision.
type Table struct {
	// Revision is the revision of the cluster that the Table shows.
	Revision int64
	// Shards are all of them, by their number. It is empty while the name has no worker and no
	// owner.
	Shards []Owner
	// Members are the workers, in the order in which they joined.
	Members []Member
	// Unplanned is for how long a change has waited for a plan, counted from when Observe saw
	// it; 0: none waits. More than a few seconds mean that nobody plans.
	Unplanned time.Duration
}

// An Owner is who holds a shard.
type Owner struct {
	Lease int64         // of the owner's session; 0: nobody has it, or a key that is not pawl's
	Value []byte        // its Options.Value
	Token fencing.Token // of its hold; 0: nobody has it
	Next  int64         // the lease of the worker that waits for it first; 0: none does
}

// A Member is one worker.
type Member struct {
	Lease   int64 // of its session
	Value   []byte
	Weight  int
	Leaving bool // it leaves in order
	Drained bool // an operator has drained it
	Plans   bool // it plans
	Held    int  // how many shards it has
	Wished  int  // how many it is wished; while it leaves or is drained, how many it was wished last
	Cannot  int  // how many it cannot take now
}

// Observe yields who works on the shards of name, first as it is when Observe begins and then
// after changes. A slow consumer sees the latest state and not every state in between. While a
// change waits for a plan, it yields once a second at least.
//
// It needs no session, writes nothing, and has no goroutine of its own: breaking out of the
// loop ends everything. It survives the loss of members, leaders, connections and watches, and
// compaction, after which it reads again. It ends when ctx ends, the client is closed, the
// cluster has changed, the permission to read is lost for good, or an argument is invalid. Then
// it yields an error that says so, once, with the zero Table, and returns. The slices of a Table
// are the consumer's own; their Values must not be changed.
func Observe(ctx context.Context, c *pawl.Client, name string) iter.Seq2[Table, error] {
	return func(yield func(Table, error) bool) {
		o, err := newObserver(ctx, c, name)
		if err == nil {
			err = o.observe(ctx, func(t Table) bool { return yield(t, nil) })
		}
		if err != nil {
			yield(Table{}, failed("observe", name, ctx, err))
		}
	}
}

// An observer is one run of Observe.
type observer struct {
	host session.Host
	keys keys.Shards

	view  *shards.View
	since time.Time // since when a change waits for a plan; zero: none does
}

func newObserver(ctx context.Context, c *pawl.Client, name string) (o *observer, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o = &observer{}
	if o.host, err = inside.HostOf(c); err != nil {
		return nil, err
	}
	if o.keys, err = keys.NewShards(o.host.Namespace, name); err != nil {
		return nil, err
	}
	return o, listwatch.Ended(ctx, o.host.Cluster)
}

// observe yields until the consumer breaks, which is no error, or until it cannot continue.
func (o *observer) observe(ctx context.Context, yield func(Table) bool) error {
	for {
		if err := listwatch.Persist(ctx, o.host.Cluster, func() (err error) {
			o.view, err = read(ctx, o.host.Cluster, o.keys, 0)
			return err
		}); err != nil {
			return err
		}
		if err := o.follow(ctx, yield); err != errAgain {
			return err
		}
	}
}

// errAgain says that the view has to be read again.
var errAgain = errors.New("read again")

// follow yields the view and its changes, until the consumer breaks or an error, which may be errAgain.
func (o *observer) follow(ctx context.Context, yield func(Table) bool) error {
	news := make(chan struct{}, 1)
	tail := listwatch.Open(o.host.Watches, listwatch.Keys{Key: o.keys.Prefix, End: string(txn.PrefixEnd(o.keys.Prefix))}, o.view.Rev+1, news, nil)
	defer tail.Close()
	for {
		t := o.table(time.Now())
		if !yield(t) {
			return nil
		}
		if err := o.wait(ctx, tail, news, t.Unplanned > 0); err != nil {
			return err
		}
	}
}

// wait waits for a change of the view, or, if a change waits for a plan, for a second at most.
func (o *observer) wait(ctx context.Context, tail *listwatch.Tail, news <-chan struct{}, unplanned bool) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	if !unplanned {
		timer.Stop()
	}
	for late := false; ; {
		select {
		case <-news:
		case <-timer.C:
			late = true
		case <-ctx.Done():
		case <-o.host.Cluster.Ended():
		}
		if err := listwatch.Ended(ctx, o.host.Cluster); err != nil {
			return err
		}
		if changed, err := o.take(tail); changed || late || err != nil {
			return err
		}
	}
}

// take applies what tail holds, and reports whether that is anything.
func (o *observer) take(tail *listwatch.Tail) (changed bool, err error) {
	held, gap, err := tail.Peek()
	for _, changes := range held {
		for _, e := range changes.Events {
			if !o.apply(event(e)) {
				return true, errAgain
			}
		}
		tail.Drop()
	}
	if err == nil && gap > 0 {
		err = errAgain
	}
	return len(held) > 0, err
}

// apply processes an event; false: the number of shards may be another one now.
func (o *observer) apply(e shards.Event) bool {
	switch k := o.keys.Parse(e.Key); {
	case k.Kind == keys.ShardsMember && k.N != o.view.N && !e.Deleted, k.Kind == keys.ShardsQueue && k.Shard >= o.view.N:
		return false
	}
	o.view.Apply(e)
	return !e.Deleted || len(o.view.ByAge()) > 0
}

// table is the view, for others.
func (o *observer) table(now time.Time) Table {
	v := o.view
	t := Table{Revision: v.Rev, Shards: make([]Owner, v.N), Members: []Member{}}
	held := map[int64]int{}
	for i, q := range v.Queues {
		if len(q) == 0 {
			continue
		}
		t.Shards[i] = Owner{Lease: q[0].Lease, Token: fencing.Token(q[0].Create)}
		if m := v.Members[q[0].Lease]; m != nil {
			t.Shards[i].Value = m.Value
		}
		if len(q) > 1 {
			t.Shards[i].Next = q[1].Lease
		}
		held[q[0].Lease]++
	}
	for _, lease := range v.ByAge() {
		m := v.Members[lease]
		t.Members = append(t.Members, Member{
			Lease: lease, Value: m.Value, Weight: m.Weight, Leaving: m.Leaving, Drained: m.Drained, Plans: len(v.Planner) > 0 && v.Planner[0].Lease == lease,
			Held: held[lease], Wished: m.Wish.Len(), Cannot: m.Cannot.Len(),
		})
	}
	switch {
	case v.Changed <= v.Planned:
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = now
		fallthrough
	default:
		t.Unplanned = max(now.Sub(o.since), 1)
	}
	return t
}
