//go:build linux

package main

import (
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/txn"
)

// floorSessions renews all sessions of a client on one stream, four times in a TTL, each
// confirmed by a read, like pawl.
type floorSessions struct {
	mu     sync.Mutex
	stream pb.Lease_LeaseKeepAliveClient
	reads  chan *floorSession
}

// renew keeps renewing s.
func (f *floorSessions) renew(c *floorClient, s *floorSession, ttl time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stream == nil {
		stream, err := c.leases.LeaseKeepAlive(c.ctx)
		if err != nil {
			return err
		}
		f.stream, f.reads = stream, make(chan *floorSession, 1<<16)
		go func() { // ends with the process
			for {
				if _, err := stream.Recv(); err != nil {
					return
				}
			}
		}()
		for range 8 {
			go f.read(c) // ends with the process
		}
	}
	f.later(s, ttl/4)
	return nil
}

// later renews s again after each pause.
func (f *floorSessions) later(s *floorSession, pause time.Duration) {
	time.AfterFunc(pause, func() {
		f.mu.Lock()
		_ = f.stream.Send(&pb.LeaseKeepAliveRequest{ID: s.lease})
		f.mu.Unlock()
		f.reads <- s
		f.later(s, pause)
	})
}

func (f *floorSessions) read(c *floorClient) {
	for s := range f.reads {
		_, _ = c.kv.Txn(c.ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.ModIs(s.key, s.mod)},
			Failure: []*pb.RequestOp{txn.Stat(s.key)},
		})
	}
}
