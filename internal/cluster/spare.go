package cluster

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// mayOpen reports whether a spare may be opened now. If so, no other may be opened for a while.
func (m *Member) mayOpen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Before(m.spareAt) {
		return false
	}
	m.spareAt = now.Add(max(minSwap, 2*m.patience())) // two for TLS, one for TCP, one for the call, and as many again
	return true
}

// newSpare returns a line that is not watched, or nil if none can be made.
func (m *Member) newSpare() *line {
	l, err := m.newLine()
	if err != nil {
		return nil
	}
	l.awaits.watched = true
	return l
}

// swap replaces l by spare, and closes l at once. The tries on l have an unknown outcome if they were
// sent, and its streams are opened again.
func (m *Member) swap(l, spare *line, why string) {
	m.mu.Lock()
	now := time.Now()
	if now.Sub(m.swapped) > 2*maxSwap {
		m.gap = minSwap
	}
	m.swapped, m.spareAt, m.gap = now, now.Add(m.gap), min(2*m.gap, maxSwap)
	if m.closed || !m.line.CompareAndSwap(l, spare) {
		m.mu.Unlock()
		spare.close()
		return
	}
	m.mu.Unlock()
	if !spare.awaits.unwatch(false) { // the spare was in use already
		spare.watch()
	}
	m.c.log.Warn("etcd connection replaced: "+why, "endpoint", m.Endpoint())
	l.awaits.giveUp(&errReplaced, everyAwait)
	if w := l.wire.Load(); w != nil {
		_ = w.Conn.Close() // without a farewell, which a mute connection might block
	}
	l.close()
}

// move looks for another address of the member's name, because the one in use answers that it
// cannot serve.
func (m *Member) move() {
	if !m.addresses.several() || !m.mayOpen() {
		return
	}
	l := m.line.Load()
	l.blame()
	spare := m.newSpare()
	if spare == nil {
		return
	}
	asks := m.c.Go(func() { // ends within probeTotal
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(m.c.life, m.c.creds.any(m).md), probeTotal)
		defer cancel()
		resp, err := etcdapi.Status(ctx, spare.conn, &pb.StatusRequest{})
		if err != nil && !IsTokenRefusal(err) || err == nil && (resp.Leader == 0 || resp.IsLearner) {
			spare.blame()
			spare.close()
			return
		}
		m.swap(l, spare, "its member cannot serve, and that of another address can")
	})
	if !asks {
		spare.close()
	}
}
