package session

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// probes are the callers that wait for a read of the session key which is not sent yet. Its
// session guards it.
type probes struct {
	waiting []func()
	working bool // a goroutine sends them
}

// add has then called after a read that is sent from now on. begin: the caller has to start the
// goroutine that reads.
func (p *probes) add(then func()) (begin bool) {
	p.waiting = append(p.waiting, then)
	begin = !p.working
	p.working = true
	return begin
}

// take returns the callers that wait for the next read; none: the goroutine ends.
func (p *probes) take() []func() {
	batch := p.waiting
	p.waiting = nil
	p.working = len(batch) > 0
	return batch
}

// ExamineSoon reads in the background, linearizably, whether the session key is still as this
// session wrote it, and ends the session if not. Then it calls then, once, whatever the result.
// The read is sent after this call, and bounded by wait. Calls in a burst, as when a lease ends
// together with a thousand keys, share reads. If the client is closed nothing is read.
func (s *Session) ExamineSoon(wait time.Duration, then func()) {
	s.mu.Lock()
	begin := s.probes.add(then)
	s.mu.Unlock()
	if !begin {
		return
	}
	what := fmt.Sprintf("session key %q", s.key)
	read := func(ctx context.Context) { s.probe(func() { s.readKey(ctx, wait) }) }
	if !s.host.Cleanup.Go(what, read) {
		s.probe(func() {})
	}
}

// probe reads until no caller waits.
func (s *Session) probe(read func()) {
	for {
		s.mu.Lock()
		batch := s.probes.take()
		s.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		read()
		for _, then := range batch {
			then()
		}
	}
}

// readKey reads the session key, within wait. If there is no answer nothing changes.
func (s *Session) readKey(ctx context.Context, wait time.Duration) {
	if s.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	resp, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: "read session key", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{s.ReadKey()},
	})
	if err == nil {
		_ = s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision)
	}
}
