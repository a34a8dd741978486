package etcdfake

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// LeaseKeepAlive handles the renewals of a stream one after the other. The first error ends it.
func (s *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	live, err := s.m.open(stream.Context(), "LeaseKeepAlive")
	if err != nil {
		return err
	}
	defer live.close()
	ended := make(chan error, 1)
	s.m.c.wg.Go(func() { // ends when the handler returns, because the stream ends with it
		ended <- s.renewals(live.ctx, stream)
	})
	select {
	case err := <-ended:
		return err
	case <-live.ctx.Done():
		return context.Cause(live.ctx)
	}
}

func (s *leaseServer) renewals(ctx context.Context, stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		req := Request{Member: s.m, Method: "LeaseKeepAlive", Message: r}
		s.m.counts.add(&s.m.counts.received, req.Method)
		resp, err := s.m.exchange(ctx, req, func(ctx context.Context) (etcdapi.Message, error) {
			resp, err := s.renew(ctx, r.ID)
			if err != nil {
				return nil, err
			}
			return resp, nil
		})
		if errors.Is(err, errSilence) {
			continue
		}
		if err != nil {
			return err
		}
		s.m.counts.add(&s.m.counts.sent, req.Method)
		if err := stream.Send(resp.(*pb.LeaseKeepAliveResponse)); err != nil {
			return err
		}
	}
}

// renew answers one renewal. The header is from before it.
func (s *leaseServer) renew(ctx context.Context, id int64) (*pb.LeaseKeepAliveResponse, error) {
	s.m.c.mu.Lock()
	resp := &pb.LeaseKeepAliveResponse{ID: id, Header: s.m.fill(&pb.ResponseHeader{})}
	s.m.c.mu.Unlock()
	for {
		s.m.c.mu.Lock()
		changed := s.m.c.changed
		s.m.c.mu.Unlock()
		var pending <-chan struct{}
		var err error
		resp.TTL, pending, err = s.m.tryRenew(ctx, id)
		if err != nil || pending == nil {
			return resp, err
		}
		select {
		case <-pending:
		case <-changed: // a new leader gives the lease time again
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.m.c.done:
			return nil, errStopped
		}
	}
}

// tryRenew renews a lease. If the lease has expired and is about to be deleted, it returns what
// must happen first.
func (m *Member) tryRenew(ctx context.Context, id int64) (ttl int64, pending <-chan struct{}, err error) {
	m.c.mu.Lock()
	confirms := m.confirms(time.Now())
	if confirms {
		ttl = m.frozen.leases[id]
	}
	m.c.mu.Unlock()
	if confirms {
		return ttl, nil, nil
	}
	if err := m.agree(ctx, rpctypes.ErrGRPCNoLeader); err != nil {
		return 0, nil, err
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	st := m.c.state
	who, err := m.who(ctx)
	if err != nil {
		return 0, nil, err
	}
	if err := st.Auth.Required(who); err != nil {
		return 0, nil, err
	}
	if err := st.MayWriteLease(who, id); err != nil {
		return 0, nil, err
	}
	ls := st.Lessor.Leases[id]
	if ls == nil {
		return 0, nil, nil
	}
	if now := time.Now(); now.Before(ls.Expires) {
		st.Lessor.Renew(now, ls)
		return ls.TTL, nil, nil
	}
	return 0, ls.Ended, nil
}

// confirmsFor is how long, in election timeouts, a leader that is cut off from its peers still
// confirms renewals.
const confirmsFor = 1.9

// confirms reports whether the member answers renewals without its peers. The caller holds
// c.mu.
func (m *Member) confirms(now time.Time) bool {
	if m.frozen == nil {
		return false
	}
	limit := time.Duration(confirmsFor * float64(m.c.opts.Election))
	return m.contact == deposed ||
		m.contact == isolated && m.frozen.leader == m.index && now.Sub(m.lostAt) < limit
}
