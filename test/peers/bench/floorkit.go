//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// floorKit is the least that such work can cost: the same transactions as pawl's, with its
// comparisons and values, sent on the bare stubs by a client that assumes that nothing fails. A
// waiter takes the deletion of the key before its own as an acquisition, without a query, and a
// release hands nothing on. That is not safe, and nothing can cost less.
type floorKit struct {
	own     bool // a waiter's key is watched too, which is how a waiter notices its end
	batched bool // transactions share requests
	bounded bool // a request ends with its caller's context, or after a while
	tls     *tls.Config
}

func (k floorKit) dial(_ context.Context, addrs ...string) (client, error) {
	conn, err := connectWith(k.tls, addrs[0])
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
	kit     floorKit
	ctx     context.Context
	kv      pb.KVClient
	leases  pb.LeaseClient
	conn    pb.WatchClient
	watch   floorWatch
	all     floorSessions
	batches floorBatches
}

// txn sends t, either with one context for all requests, or with one that ends with the
// caller's, and after a while if no answer comes.
func (c *floorClient) txn(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	if c.kit.batched {
		return c.batches.send(c, t)
	}
	if !c.kit.bounded {
		return c.kv.Txn(c.ctx, t)
	}
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, leaderOnly), 3*time.Second)
	defer cancel()
	return c.kv.Txn(ctx, t)
}

var leaderOnly = metadata.Pairs("hasleader", "true")

// The sessions' keys say that this process has them.
var holder = thisProcess()

func thisProcess() keys.Identity {
	host, _ := os.Hostname()
	return keys.Identity{Owner: fmt.Sprintf("%s:%d", host, os.Getpid()), Host: host, PID: os.Getpid()}
}

func (c *floorClient) session(_ context.Context, ttl time.Duration) (session, error) {
	l, err := c.leases.LeaseGrant(c.ctx, &pb.LeaseGrantRequest{TTL: int64(ttl / time.Second)})
	if err != nil {
		return nil, err
	}
	s := &floorSession{c: c, lease: l.ID, key: keys.SessionKey("", l.ID)}
	me := holder
	me.Since = time.Now().UTC()
	r, err := c.kv.Txn(c.ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(s.key, 0)},
		Success: []*pb.RequestOp{txn.Put(s.key, keys.SessionValue(me, rand.Text()), l.ID), txn.Get(s.key)},
		Failure: []*pb.RequestOp{txn.Get(s.key)},
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
	h, t := l.enqueue()
	from, to := keys.LeaseRange(h.key) // the session keys
	t.Success = append(t.Success, txn.LastBetween([]byte(l.prefix), from, 0), txn.LastBetween(to, txn.PrefixEnd(l.prefix), 0))
	c := l.s.c
	r, err := c.txn(ctx, t)
	if err != nil || !r.Succeeded {
		return nil, fmt.Errorf("enqueue %s: %w, %v", h.key, err, r)
	}
	before := txn.KV(r, 1)
	if kv := txn.KV(r, 2); before == nil || kv != nil && kv.CreateRevision > before.CreateRevision {
		before = kv
	}
	h.create = txn.PutRevision(r, 0)
	if before == nil {
		return h, nil
	}
	if c.kit.own {
		if h.watch, _, err = c.watch.create(c, string(h.key), h.create+1, nil); err != nil {
			return nil, err
		}
	}
	return h, c.watch.gone(ctx, c, string(before.Key), r.Header.Revision+1)
}

// enqueue is what the enqueues of an acquisition and of a try have in common.
func (l floorLocker) enqueue() (floorHeld, *pb.TxnRequest) {
	s := l.s
	n := s.n.Add(1)
	h := floorHeld{s: s, key: []byte(keys.QueueKey{Lease: s.lease, N: n}.In(l.prefix))}
	t := txn.New()
	t.Compare = append(t.Compare, txn.CreateIs(h.key, 0), txn.CreateIs(keys.CancelKey(s.key, n), 0), txn.ModIs(s.key, s.mod))
	t.Success = append(t.Success, txn.Put(h.key, keys.Plain(time.Now(), false), s.lease))
	return h, t
}

func (l floorLocker) try(ctx context.Context) (held, error) {
	r, err := l.s.c.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{txn.FirstUnder(l.prefix, 1)}})
	if err != nil || txn.KV(r, 0) != nil {
		return nil, err
	}
	h, t := l.enqueue()
	t.Success = append(t.Success, txn.LastUnder(l.prefix, 2, 0))
	t.Compare = append(t.Compare, txn.NoneUnder(l.prefix))
	if r, err = l.s.c.txn(ctx, t); err != nil || !r.Succeeded {
		return nil, fmt.Errorf("enqueue %s: %w, %v", h.key, err, r)
	}
	h.create = txn.PutRevision(r, 0)
	return h, nil
}

type floorHeld struct {
	s      *floorSession
	key    []byte
	create int64
	watch  int64 // of its key; 0 if none
}

func (h floorHeld) release(ctx context.Context) error {
	if h.watch != 0 {
		if err := h.s.c.watch.cancel(h.watch); err != nil {
			return err
		}
	}
	t := txn.New()
	t.Compare = append(t.Compare, txn.ModIs(h.key, h.create))
	t.Success = append(t.Success, txn.Delete(h.key))
	r, err := h.s.c.txn(ctx, t)
	if err != nil || !r.Succeeded {
		return fmt.Errorf("release %s: %w, %v", h.key, err, r)
	}
	return nil
}
