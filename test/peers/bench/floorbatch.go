//go:build linux

package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/txn"
)

// floorParts is how many transactions share a request at most, as in pawl.
const floorParts = 32

// floorBatches is the least that sending transactions in batches costs: a transaction that comes
// while as many requests are in flight as may be waits, and is sent with all waiting ones when a request
// is answered, or when they are as many as a request may have. The limit is that of pawl. It does not
// check whether transactions may share a request, does not handle a refusal, and nothing bounds
// a request's time.
type floorBatches struct {
	mu      sync.Mutex
	busy    int
	trip    time.Duration // the least round trip so far; 0 if there is none
	waiting []*floorPart
}

type floorPart struct {
	txn  *pb.TxnRequest
	done chan struct{}
	resp *pb.TxnResponse
	err  error
}

// open reports whether another request may be in flight.
func (b *floorBatches) open() bool {
	return b.busy < min(max(2, int(b.trip/(300*time.Microsecond))), 16)
}

func (b *floorBatches) send(c *floorClient, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	b.mu.Lock()
	if !b.open() {
		p := &floorPart{txn: t, done: make(chan struct{})}
		if b.waiting = append(b.waiting, p); len(b.waiting) == floorParts {
			b.flush(c)
		}
		b.mu.Unlock()
		<-p.done
		return p.resp, p.err
	}
	b.busy++
	b.mu.Unlock()
	start := time.Now()
	r, err := c.kv.Txn(c.ctx, t)
	b.next(c, time.Since(start))
	return r, err
}

// flush sends what waits. b.mu is held.
func (b *floorBatches) flush(c *floorClient) {
	parts := b.waiting
	b.waiting = nil
	b.busy++
	go func() { // ends with its request
		start := time.Now()
		sendParts(c, parts)
		trip := time.Since(start)
		runtime.Gosched() // as pawl: callers write again before the request stops counting
		b.next(c, trip)
	}()
}

// next makes room, after a round trip, for what waits.
func (b *floorBatches) next(c *floorClient, trip time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy--; b.trip == 0 || trip < b.trip {
		b.trip = trip
	}
	if len(b.waiting) > 0 && b.open() {
		b.flush(c)
	}
}

func sendParts(c *floorClient, parts []*floorPart) {
	if len(parts) == 1 {
		p := parts[0]
		p.resp, p.err = c.kv.Txn(c.ctx, p.txn)
		close(p.done)
		return
	}
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
