package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/watch"
)

// Watch yields the changes of a key, or of all keys with that prefix, once each, in the order of
// revisions; see package watch. It does not prefix Config.Namespace to the key.
//
// It resumes wherever it is interrupted, and yields a gap if the cluster has compacted changes that
// were not yielded yet. It ends when ctx ends, the client is closed, the cluster has changed, the role
// may not read the keys, or an argument is invalid. Before that it yields, once, an error that says
// why, with the zero Event.
//
// It needs no session, writes nothing, and has no goroutine of its own, so breaking out of the loop ends
// everything. Ranging over the sequence again begins again. Ranges over it in several goroutines are
// independent, and share their requests.
func (c *Client) Watch(ctx context.Context, key string, opts watch.Options) iter.Seq2[watch.Event, error] {
	return func(yield func(watch.Event, error) bool) {
		err := c.watchable(ctx, key, opts)
		if err == nil {
			err = c.watch(ctx, key, opts, func(e watch.Event) bool { return yield(e, nil) })
		}
		if err != nil {
			yield(watch.Event{}, fmt.Errorf("pawl: watch %q: %w", key, err))
		}
	}
}

func (c *Client) watchable(ctx context.Context, key string, opts watch.Options) error {
	switch err := c.usable(ctx); {
	case err != nil:
		return err
	case key == "" && !opts.Prefix:
		return errors.New("the key is empty")
	case opts.From < 0:
		return fmt.Errorf("Options.From is %d, want 0 or more", opts.From)
	}
	return nil
}

// watch yields until the consumer breaks, which is no error, or until it cannot continue.
func (c *Client) watch(ctx context.Context, key string, opts watch.Options, yield func(watch.Event) bool) (err error) {
	keys := listwatch.Keys{Key: key}
	if opts.Prefix {
		keys.End = string(txn.PrefixEnd(key))
	}
	from := opts.From
	if from == 0 {
		if from, err = c.nextRevision(ctx, key); err != nil {
			return err
		}
	}
	for {
		gap, err := c.tail(ctx, keys, from, opts.Values, yield)
		if err != nil || gap == 0 || !yield(watch.Event{Gap: gap}) {
			return err
		}
		from = gap + 1
	}
}

// nextRevision is the revision after the cluster's current one.
func (c *Client) nextRevision(ctx context.Context, key string) (rev int64, err error) {
	if key == "" {
		key = "\x00" // the smallest key; etcd refuses the empty one
	}
	read := &pb.TxnRequest{Success: []*pb.RequestOp{txn.Stat(key)}}
	err = listwatch.Persist(ctx, c.cluster, func() error {
		resp, err := c.cluster.Txn(ctx, cluster.Request{Op: "read the revision", Repeat: cluster.Always}, read)
		rev = resp.GetHeader().GetRevision()
		return err
	})
	return rev + 1, err
}

// tail yields what happens starting at revision from, up to a gap. If it returns gap 0 and no error,
// the consumer broke.
func (c *Client) tail(ctx context.Context, keys listwatch.Keys, from int64, values bool, yield func(watch.Event) bool) (gap int64, err error) {
	news := make(chan struct{}, 1)
	var strip func(*watcher.Event)
	if !values {
		strip = func(e *watcher.Event) { e.Value = nil }
	}
	t := listwatch.Open(c.watches, keys, from, news, strip)
	defer t.Close()
	for {
		held, gap, end := t.Peek()
		for _, changes := range held {
			for _, e := range changes.Events {
				if err := listwatch.Ended(ctx, c.cluster); err != nil {
					return 0, err
				}
				if !yield(eventOf(e)) {
					return 0, nil
				}
			}
			t.Drop()
		}
		switch {
		case len(held) > 0:
			continue // more changes may have come before the end
		case end != nil || gap > 0:
			return gap, end
		}
		if err := listwatch.Wait(ctx, c.cluster, news); err != nil {
			return 0, err
		}
	}
}

func eventOf(e watcher.Event) watch.Event {
	return watch.Event{
		Key: e.Key, Value: e.Value, Deleted: e.Deleted,
		ModRevision: e.ModRevision, CreateRevision: e.CreateRevision,
	}
}
