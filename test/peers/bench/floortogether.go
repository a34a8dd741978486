//go:build linux

package main

import (
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/txn"
)

// The window of the floor that sends transactions together: pawl's on loopback.
const (
	floorLanes = 2
	floorParts = 32
)

// floorBatches is the least that sending transactions together costs: a transaction that comes
// while all lanes are used waits, and is sent with all waiting ones when a lane is answered. It
// does not check whether they may share a request, and does not handle a refusal.
type floorBatches struct {
	mu      sync.Mutex
	busy    int
	waiting []*floorPart
}

type floorPart struct {
	txn  *pb.TxnRequest
	done chan struct{}
	resp *pb.TxnResponse
	err  error
}

func (b *floorBatches) send(c *floorClient, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	b.mu.Lock()
	if b.busy == floorLanes {
		p := &floorPart{txn: t, done: make(chan struct{})}
		b.waiting = append(b.waiting, p)
		b.mu.Unlock()
		<-p.done
		return p.resp, p.err
	}
	b.busy++
	b.mu.Unlock()
	defer b.next(c)
	return c.kv.Txn(c.ctx, t)
}

// next passes the lane on, or frees it.
func (b *floorBatches) next(c *floorClient) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), floorParts)
	if n == 0 {
		b.busy--
		return
	}
	parts := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	go func() { // ends with its request
		sendParts(c, parts)
		b.next(c)
	}()
}

func sendParts(c *floorClient, parts []*floorPart) {
	t := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(parts))}
	for i, p := range parts {
		t.Success[i] = txn.Nested(p.txn)
	}
	r, err := c.kv.Txn(c.ctx, t)
	if err == nil && len(r.Responses) != len(parts) {
		err = fmt.Errorf("%d answers to %d transactions", len(r.Responses), len(parts))
	}
	for i, p := range parts {
		if p.err = err; err == nil {
			p.resp = r.Responses[i].GetResponseTxn()
			p.resp.Header = r.Header
		}
		close(p.done)
	}
}
