package shard

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Table shows which workers work on the shards of a name, at one revision.
type Table struct {
	// Revision is the revision of the cluster that the Table shows.
	Revision int64
	// Shards has all shards, by their number. It is empty while the name has no worker and no owner.
	Shards []Owner
	// Members are the workers, in the order in which they joined.
	Members []Member
	// Unplanned is how long a change has waited for a plan, counted from when Observe saw it. It is 0
	// if none waits. More than a few seconds mean that nobody plans.
	Unplanned time.Duration
}

// An Owner is the holder of a shard.
type Owner struct {
	Lease int64         // of the owner, as its Member has it; 0 if the shard has no owner, or a key that is not pawl's
	Value []byte        // the worker's Options.Value
	Token fencing.Token // of the hold; 0 if the shard has no owner
	Next  int64         // the lease of the first worker that waits for the shard; 0 if none does
	Rest  Rest          // why it has no owner, if that is on purpose
	Load  float64       // as its owner tells it; 0 if it tells none (Options.Load)
}

// A Rest is a pause in which a shard has no owner on purpose, because it failed on several workers. The
// zero Rest is none.
type Rest struct {
	Until time.Time // by the planner's clock, to within 5 s; a moment later it is tried again
	Kills bool      // workers died with it; otherwise its work, or its Prepare, failed
}

// A Member is one worker.
type Member struct {
	Lease   int64 // of its session
	Value   []byte
	Weight  int
	Leaving bool // it leaves in order
	Drained bool // an operator has drained it
	// Sick says that most shards fail on it, so that it gets none, and Trial that it gets one shard, to
	// find out whether it still is. If more than half of all are sick, they get their shares all the same.
	Sick, Trial bool
	// HeldUntil is until when it gets nothing, because workers with its ID died repeatedly, by the
	// planner's clock. It is zero if it may have its share.
	HeldUntil time.Time
	ID        string // Options.ID
	Plans     bool   // it plans
	Held      int    // how many shards it has
	Wished    int    // how many its wish has; while it leaves or is drained, how many its last wish had
	Cannot    int    // how many it cannot take now

	// Load is the sum of the loads that it tells of the shards that it has, and Measured of how many it
	// tells one: 0 without Options.Load, and in the first moments. It tells them anew when they have
	// changed by more than a little.
	Load     float64
	Measured int
}

// Observe yields which workers work on the shards of name, first when Observe begins and then after
// changes. A slow consumer sees the latest state and not every state in between. While a change waits
// for a plan, Observe yields at least once a second.
//
// It needs no session, writes nothing, and has no goroutine of its own, so breaking out of the loop ends
// everything. It survives the loss of members, leaders, connections and watches, and compaction, after
// which it reads again. It ends when ctx ends, the client is closed, the cluster has changed, the
// permission to read is lost for good, or an argument is invalid. Before it returns, it yields, once,
// an error that says why, with the zero Table. The consumer may change the slices of a Table, but not
// the Values in them.
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
	since time.Time // since when a change has waited for a plan; zero if none does
}

func newObserver(ctx context.Context, c *pawl.Client, name string) (o *observer, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o = &observer{}
	if o.host, err = hooks.HostOf(c); err != nil {
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

// take applies what tail holds, and reports whether there was anything.
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

// apply processes an event. It returns false if the number of shards may have changed.
func (o *observer) apply(e shards.Event) bool {
	switch k := o.keys.Parse(e.Key); {
	case k.Kind == keys.ShardsMember && k.N != o.view.N && !e.Deleted, k.Kind == keys.ShardsQueue && k.Shard >= o.view.N:
		return false
	}
	o.view.Apply(e)
	return !e.Deleted || len(o.view.ByAge()) > 0
}

// table is the view as a Table.
func (o *observer) table(now time.Time) Table {
	v := o.view
	t := Table{Revision: v.Rev, Shards: make([]Owner, v.N), Members: []Member{}}
	held, measured, loads := map[int64]int{}, map[int64]int{}, map[int64]float64{}
	for i, q := range v.Queues {
		if len(q) == 0 {
			if rest, ok := v.Said.Rest(i); ok {
				t.Shards[i].Rest = Rest{rest.Until, rest.Deaths}
			}
			continue
		}
		t.Shards[i] = Owner{Lease: v.MemberOf(q[0].Lease), Token: fencing.Token(q[0].Create)}
		if m := v.Members[t.Shards[i].Lease]; m != nil {
			t.Shards[i].Value = m.Value
			if load, told := m.Told.Of(i); told {
				t.Shards[i].Load = load
				loads[t.Shards[i].Lease] += load
				measured[t.Shards[i].Lease]++
			}
		}
		if len(q) > 1 {
			t.Shards[i].Next = v.MemberOf(q[1].Lease)
		}
		held[t.Shards[i].Lease]++
	}
	for _, lease := range v.ByAge() {
		m := v.Members[lease]
		t.Members = append(t.Members, Member{
			Lease: lease, Value: m.Value, Weight: m.Weight, Leaving: m.Leaving, Drained: m.Drained, Plans: len(v.Planner) > 0 && v.Planner[0].Lease == lease,
			Held: held[lease], Wished: m.Wish.Len(), Cannot: m.Cannot.Len(),
			Sick: m.Health == shards.Sick, Trial: m.Health == shards.Trial, HeldUntil: v.Said.HeldUntil(lease), ID: m.ID,
			Load: loads[lease], Measured: measured[lease],
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
