package elect

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// Observe yields who leads, first as it is when Observe begins and then after each change: another
// leader, another value, or, as an event with Token 0, no leader. It never yields a candidate that
// did not lead, nor the same event twice, and Revision increases from event to event. A slow
// consumer sees the latest state and not every state in between.
//
// It needs no session, writes nothing, and has no goroutine of its own, so breaking out of the loop
// ends everything. It survives the loss of members, leaders, connections and watches, and compaction,
// after which it reads again. It ends when ctx ends, the client is closed, the cluster has changed,
// the permission to read is lost for good, or an argument is invalid. Then it yields an error that
// says so, once, with the zero Leader, and returns.
//
// It keeps the name and the create revision of each candidate, about 100 bytes. Ranging over the
// sequence again starts over.
func Observe(ctx context.Context, c *pawl.Client, name string, opts Options) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		r, err := newReader(ctx, c, name, opts)
		if err == nil {
			o := &observer{reader: r}
			err = o.observe(ctx, func(l Leader) bool { return yield(l, nil) })
		}
		if err != nil {
			yield(Leader{}, failed("observe", name, ctx, err))
		}
	}
}

// An observer is one run of Observe.
type observer struct {
	*reader
	begun bool
	said  proclaimed // what was yielded last, without its value; the zero proclaimed if that was no leader
}

// observe yields until the consumer breaks, which is no error, or until it cannot continue.
func (o *observer) observe(ctx context.Context, yield func(Leader) bool) error {
	for {
		st, err := o.readState(ctx)
		if err != nil {
			return err
		}
		if again, err := o.follow(ctx, newObserved(st), yield); !again {
			return err
		}
	}
}

// follow watches the observed state, starting at its revision, and yields its changes. again
// reports that what the watch delivered is no longer enough, so that the state has to be read
// again.
func (o *observer) follow(ctx context.Context, f *observed, yield func(Leader) bool) (again bool, err error) {
	prefix := o.queue.Prefix
	w := o.host.Watches.Watch(prefix, string(txn.PrefixEnd(prefix)), f.st.rev+1, f.take)
	defer w.Cancel()
	for {
		p, rev, known, end := f.leading()
		if end.Err != nil {
			return false, end.Err
		}
		if end.Compacted > 0 {
			return true, nil
		}
		gone := false
		if !known {
			if p, rev, err = o.readValue(ctx, p.candidate); err != nil {
				return false, err
			}
			gone = p.create == 0 // the watch will show who follows
			f.note(p)
		}
		if !gone && o.isNews(p) && !yield(o.leader(p, rev)) {
			return false, nil
		}
		if quiet, err := o.wait(ctx, f, gone); err != nil || quiet {
			return quiet, err
		}
	}
}

// isNews reports whether p differs from what was yielded last, and records that p is yielded
// now.
func (o *observer) isNews(p proclaimed) bool {
	if o.begun && o.said.candidate == p.candidate && o.said.mod == p.mod {
		return false
	}
	o.begun, o.said = true, proclaimed{candidate: p.candidate, mod: p.mod}
	return true
}

// overdue is how long the watch may take to deliver a change that a read has already shown,
// before everything is read again.
const overdue = 2 * time.Second

// wait waits for a change of f. With due set it waits at most overdue; quiet reports that no
// change came.
func (o *observer) wait(ctx context.Context, f *observed, due bool) (quiet bool, err error) {
	var late <-chan time.Time
	if due {
		t := time.NewTimer(overdue)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-f.changed:
	case <-late:
		quiet = true
	case <-ctx.Done():
	case <-o.host.Cluster.Ended():
	}
	return quiet, listwatch.Ended(ctx, o.host.Cluster)
}

func (o *observer) readState(ctx context.Context) (st *electionState, err error) {
	err = listwatch.Persist(ctx, o.host.Cluster, func() (err error) {
		st, err = o.state(ctx)
		return err
	})
	return st, err
}

func (o *observer) readValue(ctx context.Context, c candidate) (p proclaimed, rev int64, err error) {
	err = listwatch.Persist(ctx, o.host.Cluster, func() (err error) {
		p, rev, err = o.value(ctx, c)
		return err
	})
	return p, rev, err
}

// An observed is an election's state that a watch keeps up to date. It holds one state, the
// latest, however slow its reader is.
type observed struct {
	changed chan struct{} // holds one element when there is news

	mu  sync.Mutex
	st  *electionState
	end watcher.Update // set once the watch has ended
}

func newObserved(st *electionState) *observed {
	return &observed{st: st, changed: make(chan struct{}, 1)}
}

// take is called by the watch.
func (f *observed) take(u watcher.Update) {
	f.mu.Lock()
	if len(u.Events) > 0 {
		f.st.apply(u.Events, u.Revision)
	}
	if u.Err != nil || u.Compacted > 0 {
		f.end = u
	}
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default: // its reader has been woken already
	}
}

// leading returns who leads at revision rev. known is false if the value has to be read. end is set
// once the watch has ended.
func (f *observed) leading() (p proclaimed, rev int64, known bool, end watcher.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, known = f.st.leader()
	return p, f.st.rev, known, f.end
}

// note records a value that was read, if its key is still first.
func (f *observed) note(p proclaimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.st.first() == p.candidate {
		f.st.note(p)
	}
}
