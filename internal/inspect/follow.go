package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// ErrClosed is returned by the methods of a Follower that was closed.
var ErrClosed = errors.New("inspect: follower is closed")

// A Follower keeps the state of a scope up to date. Next is for one goroutine; the
// other methods may be called by any, at any time.
type Follower struct {
	reader *reader
	scope  Scope
	news   chan struct{} // holds one element when a tail has something
	closed chan struct{}
	shut   sync.Once

	mu     sync.Mutex // never held during a request
	tracks []*track
}

// A track is one span's state and the watch of its changes.
type track struct {
	span
	state *state
	tail  *listwatch.Tail
}

// Follow reads the scope, and follows it starting at that revision. The caller closes it.
func Follow(ctx context.Context, c *pawl.Client, scope Scope) (*Follower, error) {
	return using(ctx, c, "inspect", func(r *reader) (*Follower, error) {
		spans, err := scope.spans(r.host.Namespace)
		if err != nil {
			return nil, err
		}
		states, err := r.read(ctx, spans, 0)
		if err != nil {
			return nil, err
		}
		f := &Follower{reader: r, scope: scope, news: make(chan struct{}, 1), closed: make(chan struct{})}
		for i, sp := range spans {
			t := &track{span: sp, state: states[i]}
			f.tracks = append(f.tracks, t)
			f.watch(t)
		}
		return f, nil
	})
}

// watch begins to follow t, starting at its state's revision. The caller holds mu, or is the only
// one to have f yet.
func (f *Follower) watch(t *track) {
	from, end := t.keys()
	keys := listwatch.Keys{Key: string(from), End: string(end)}
	t.tail = listwatch.Open(f.reader.host.Watches, keys, t.state.rev+1, f.news, nil)
	select {
	case <-f.closed: // Close has closed the tail before this one
		t.tail.Close()
	default:
	}
}

// Close ends the watches, and Next returns ErrClosed. It can be called again.
func (f *Follower) Close() {
	f.shut.Do(func() { close(f.closed) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tracks {
		t.tail.Close()
	}
}

// Snapshot returns the state after the last Next.
func (f *Follower) Snapshot() *Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &Snapshot{}
	for _, t := range f.tracks {
		out.add(t.state, f.scope, t.span)
	}
	return out
}

// Next waits for changes, and returns their events. It may return none, because some
// changes have no Event, such as those of a foreign key. After an error other than
// ctx's the Follower is of no more use.
func (f *Follower) Next(ctx context.Context) ([]Event, error) {
	for {
		var out []Event
		changed := false
		for _, t := range f.tracks {
			events, news, err := f.advance(ctx, t)
			if err != nil && len(out) == 0 {
				return nil, fmt.Errorf("inspect: %w", f.reader.explain(err, t.span))
			}
			out, changed = append(out, events...), changed || news
		}
		if changed {
			slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
			return out, nil
		}
		select {
		case <-f.news:
		case <-f.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("inspect: %w", context.Cause(ctx))
		case <-f.reader.host.Cluster.Ended():
			return nil, fmt.Errorf("inspect: %w", f.reader.host.Cluster.Err())
		}
	}
}

// advance applies the changes that arrived for t.
func (f *Follower) advance(ctx context.Context, t *track) (out []Event, changed bool, err error) {
	held, gap, end := t.tail.Peek()
	for _, b := range held {
		answers, err := f.answers(ctx, b.Events)
		if err != nil {
			return out, changed, err
		}
		f.mu.Lock()
		for _, events := range revisions(b.Events) {
			out = append(out, f.ours(t, t.state.apply(revision{events, b.At, answers}))...)
		}
		f.mu.Unlock()
		t.tail.Drop()
		changed = true
	}
	switch {
	case end != nil:
		return out, changed, end
	case gap == 0:
		return out, changed, nil
	}
	events, err := f.reread(ctx, t)
	return append(out, events...), err == nil || changed, err
}

// answers returns the answers to the queries of events. It retries until the cluster
// answers.
func (f *Follower) answers(ctx context.Context, events []watcher.Event) (answers map[query]answer, err error) {
	var queries []query
	for _, of := range revisions(events) {
		queries = append(queries, queriesOf(of)...)
	}
	if len(queries) == 0 {
		return nil, nil
	}
	err = listwatch.Persist(ctx, f.reader.host.Cluster, func() (err error) {
		answers, err = f.reader.answer(ctx, queries)
		return err
	})
	return answers, err
}

// reread reads t again after a gap, and watches it starting at that revision.
func (f *Follower) reread(ctx context.Context, t *track) ([]Event, error) {
	t.tail.Close()
	var found []*state
	err := listwatch.Persist(ctx, f.reader.host.Cluster, func() (err error) {
		found, err = f.reader.read(ctx, []span{t.span}, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	events := f.ours(t, t.state.replace(found[0], time.Now()))
	f.watch(t)
	return events, nil
}

// ours returns the events that are in the scope.
func (f *Follower) ours(t *track, events []Event) []Event {
	return slices.DeleteFunc(events, func(e Event) bool {
		if t.only != "" {
			return e.Prefix != t.only
		}
		return !strings.HasPrefix(e.Name, f.scope.Prefix)
	})
}

// revisions groups events, which are in order, by their revisions.
func revisions(events []watcher.Event) (out [][]watcher.Event) {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].ModRevision == events[0].ModRevision {
			n++
		}
		out, events = append(out, events[:n:n]), events[n:]
	}
	return out
}
