package kv

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	pageKeys = 500 // how many keys List reads with one request
	relists  = 5   // how often List begins again because its revision was compacted
)

// Get reads key, linearizably. An Entry with ModRevision 0 means that the key does not exist. It waits
// for the answer until ctx ends, and at most 20 s. No error matches ErrUnknown, because a read is sent
// again after an unknown outcome.
func (c *Client) Get(ctx context.Context, key string) (Entry, error) {
	err := c.usable(ctx)
	if err == nil {
		err = Get(key).check()
	}
	if err != nil {
		return Entry{}, fmt.Errorf("kv: get: %w", err)
	}
	resp, err := c.read(ctx, read(key, false))
	if err != nil {
		return Entry{}, fmt.Errorf("kv: get %q: %w", key, err)
	}
	return entry(key, resp), nil
}

// List reads the first limit keys with prefix, in their order, or all of them if limit is 0. An empty
// prefix means all keys. The entries are as they were at one revision of the cluster, which is not older
// than the call. If there are many, List sends several requests, of at most 20 s each, until ctx ends.
// No error matches ErrUnknown.
func (c *Client) List(ctx context.Context, prefix string, limit int64) ([]Entry, error) {
	err := c.usable(ctx)
	if err == nil {
		err = GetPrefix(prefix, limit).check()
	}
	if err != nil {
		return nil, fmt.Errorf("kv: list: %w", err)
	}
	for try := 1; ; try++ {
		out, err := c.list(ctx, prefix, limit)
		switch {
		case err == nil:
			return out, nil
		case !cluster.IsCompacted(err) || try == relists:
			return nil, fmt.Errorf("kv: list %q: %w", prefix, err)
		}
	}
}

// list reads page by page, all at the revision of the first page.
func (c *Client) list(ctx context.Context, prefix string, limit int64) (out []Entry, err error) {
	from, rev := prefix, int64(0)
	for {
		size := int64(pageKeys)
		if limit > 0 {
			size = min(size, limit-int64(len(out)))
		}
		resp, err := c.read(ctx, readPrefix(prefix, from, size, rev))
		if err != nil {
			return nil, err
		}
		out = append(out, entries(resp)...)
		if !resp.More || limit > 0 && int64(len(out)) >= limit {
			return out, nil
		}
		from = out[len(out)-1].Key + "\x00"
		if rev == 0 {
			rev = resp.Header.GetRevision()
		}
	}
}

// read makes one linearizable read. The answer has the header of its transaction.
func (c *Client) read(ctx context.Context, op *pb.RequestOp) (*pb.RangeResponse, error) {
	r := cluster.Request{Op: "read", Repeat: cluster.Always, PerTry: tryBound, Total: totalBound}
	resp, err := c.c.Txn(ctx, r, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
	if err != nil {
		return nil, err
	}
	if len(resp.Responses) != 1 {
		return nil, errAnswer
	}
	out := resp.Responses[0].GetResponseRange()
	if out == nil || out.More && len(out.Kvs) == 0 {
		return nil, errAnswer
	}
	out.Header = resp.Header
	return out, nil
}

// usable returns why no request can be made.
func (c *Client) usable(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errors.New("the context is nil")
	case c == nil || c.c == nil:
		return errors.New("the client is nil")
	}
	return nil
}
