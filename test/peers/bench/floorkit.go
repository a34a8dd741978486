//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/txn"
)

// floorKit is the least that such work can cost: the same transactions as pawl's, with its
// comparisons, sent on the bare stubs by a client that assumes that nothing fails. A waiter
// takes the deletion of the key before its own as an acquisition, without a query; that is not
// safe, and nothing can cost less.
type floorKit struct {
	own     bool // a waiter's own key is watched too, which is how a waiter notices its end
	nested  bool // transactions share requests
	bounded bool // a request ends with its caller's context, or after a while, and a key says who holds it
}

func (k floorKit) dial(_ context.Context, addrs ...string) (client, error) {
	conn, err := connect(addrs[0])
	if err != nil {
		return nil, err
	}
	c := &floorClient{
		kit: k,
		ctx: metadata.NewOutgoingContext(context.Background(), leaderOnly),
		kv:  pb.NewKVClient(conn), leases: pb.NewLeaseClient(conn), conn: pb.NewWatchClient(conn),
	}
	return c, nil
}

type floorClient struct {
	kit    floorKit
	ctx    context.Context
	kv     pb.KVClient
	leases pb.LeaseClient
	conn   pb.WatchClient
	watch  floorWatch
	all    floorSessions
	nested floorBatches
}

// txn sends t, either with one context for all requests, or with one that ends with the
// caller's, and after a while if no answer comes.
func (c *floorClient) txn(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	if c.kit.nested {
		return c.nested.send(c, t)
	}
	if !c.kit.bounded {
		return c.kv.Txn(c.ctx, t)
	}
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, leaderOnly), 3*time.Second)
	defer cancel()
	return c.kv.Txn(ctx, t)
}

var leaderOnly = metadata.Pairs("hasleader", "true")

// holder is a key's value.
func (c *floorClient) holder() []byte {
	if !c.kit.bounded {
		return []byte("holder")
	}
	return []byte(`{"pawl":"lock","owner":"root@host","host":"host","pid":12345,"since":"` + time.Now().UTC().Format(time.RFC3339Nano) + `"}`)
}

func (c *floorClient) session(_ context.Context, ttl time.Duration) (session, error) {
	l, err := c.leases.LeaseGrant(c.ctx, &pb.LeaseGrantRequest{TTL: int64(ttl / time.Second)})
	if err != nil {
		return nil, err
	}
	s := &floorSession{c: c, lease: l.ID, key: fmt.Sprintf("//floor/%x", l.ID)}
	r, err := c.kv.Txn(c.ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(s.key, 0)},
		Success: []*pb.RequestOp{txn.Put(s.key, []byte("session"), l.ID)},
	})
	if err != nil {
		return nil, err
	}
	s.mod = r.Header.Revision
	return s, c.all.renew(c, s, ttl)
}

type floorSession struct {
	c     *floorClient
	lease int64
	key   string
	mod   int64
	n     atomic.Int64 // keys so far
}

func (s *floorSession) locker(name string) locker { return floorLocker{s, name + "/"} }

type floorLocker struct {
	s      *floorSession
	prefix string
}

func (l floorLocker) acquire(ctx context.Context) (held, error) {
	s := l.s
	n := strconv.FormatInt(s.n.Add(1), 10)
	all := l.prefix + strconv.FormatInt(s.lease, 16) // the session's own keys have this prefix, and then a dash
	key := all + "-" + n
	cancel := s.key + "/" + n
	r, err := s.c.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(key, 0), txn.CreateIs(cancel, 0), txn.ModIs(s.key, s.mod)},
		Success: []*pb.RequestOp{txn.Put(key, s.c.holder(), s.lease),
			txn.LastBetween([]byte(l.prefix), []byte(all+"-"), 0), txn.LastBetween([]byte(all+"."), txn.PrefixEnd(l.prefix), 0)},
	})
	if err != nil || !r.Succeeded {
		return nil, fmt.Errorf("enqueue %s: %w, %v", key, err, r)
	}
	before := txn.KV(r, 1)
	if kv := txn.KV(r, 2); before == nil || kv != nil && kv.CreateRevision > before.CreateRevision {
		before = kv
	}
	h := floorHeld{s: s, key: key, create: txn.PutRevision(r, 0)}
	if before == nil {
		return h, nil
	}
	if s.c.kit.own {
		if h.watch, _, err = s.c.watch.create(s.c, key, h.create+1, nil); err != nil {
			return nil, err
		}
	}
	return h, s.c.watch.gone(ctx, s.c, string(before.Key), r.Header.Revision+1)
}

func (l floorLocker) try(ctx context.Context) (held, error) {
	r, err := l.s.c.kv.Range(l.s.c.ctx, &pb.RangeRequest{
		Key: []byte(l.prefix), RangeEnd: txn.PrefixEnd(l.prefix), Limit: 1, KeysOnly: true,
	})
	if err != nil || len(r.Kvs) > 0 {
		return nil, err
	}
	return l.acquire(ctx)
}

type floorHeld struct {
	s      *floorSession
	key    string
	create int64
	watch  int64 // of its own key; 0: none
}

func (h floorHeld) release(ctx context.Context) error {
	if h.watch != 0 {
		if err := h.s.c.watch.cancel(h.watch); err != nil {
			return err
		}
	}
	r, err := h.s.c.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(h.key, h.create)},
		Success: []*pb.RequestOp{txn.Delete(h.key)},
	})
	if err != nil || !r.Succeeded {
		return fmt.Errorf("release %s: %w, %v", h.key, err, r)
	}
	return nil
}
