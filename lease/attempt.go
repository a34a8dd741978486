package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A result is what one attempt to renew came to.
type result struct {
	sent clock.Instant // read before the renewal was written
	ttl  time.Duration // as the server answered
	rev  int64         // at which the confirming read showed the session key
	over bool          // the server's word ended the session
	err  error         // why it counts for nothing; a failed attempt is not a loss
}

// attemptBound is how long an attempt may take: at most a third of the TTL, so
// that three fit, and no longer than a server goes on trying.
func (s *Session) attemptBound() time.Duration {
	return min(s.TTL()/3, lateGrant)
}

// attempt makes one confirmed renewal on m (rule N1): a renewal on a stream of
// its own, so that a late answer can never be taken for another's (N2), and
// then a linearizable read on the same member. What the read shows of claims is
// told to them here.
func (s *Session) attempt(ctx context.Context, m *cluster.Member) result {
	ctx, cancel := context.WithTimeout(ctx, s.attemptBound())
	defer cancel()
	sent, answer, err := s.keepAlive(ctx, m)
	if err != nil {
		s.host.Cluster.Failed(m, err)
		return result{err: fmt.Errorf("renewal on %s: %w", m.Endpoint(), err)}
	}
	if answer.TTL <= 0 {
		s.Gone(fmt.Sprintf("%s answers a renewal with TTL %d", m.Endpoint(), answer.TTL))
		return result{over: true}
	}
	r := s.confirm(ctx, m, answer)
	r.sent, r.ttl = sent, time.Duration(answer.TTL)*time.Second
	return r
}

// keepAlive sends one renewal and takes its answer. The clock is read before
// the renewal is written (rule T2).
func (s *Session) keepAlive(ctx context.Context, m *cluster.Member) (sent clock.Instant, answer *pb.LeaseKeepAliveResponse, err error) {
	for refused := 0; ; refused++ {
		var token string
		sent, answer, token, err = s.keepAliveOnce(ctx, m)
		if err == nil || !cluster.IsTokenRefusal(err) || refused == 1 {
			return sent, answer, err
		}
		s.host.Cluster.TokenRefused(token)
	}
}

func (s *Session) keepAliveOnce(ctx context.Context, m *cluster.Member) (sent clock.Instant, answer *pb.LeaseKeepAliveResponse, token string, err error) {
	out, token, err := s.host.Cluster.Outgoing(ctx)
	if err != nil {
		return sent, nil, token, err
	}
	stream, err := m.Lease().LeaseKeepAlive(out)
	if err != nil {
		return sent, nil, token, err
	}
	sent = clock.Now()
	if err = stream.Send(&pb.LeaseKeepAliveRequest{ID: s.id}); err != nil && !errors.Is(err, io.EOF) {
		return sent, nil, token, err // io.EOF: Recv has the reason
	}
	answer, err = stream.Recv()
	if err != nil {
		return sent, nil, token, err
	}
	// Closed from here and drained, so that the server records a clean end.
	if stream.CloseSend() == nil {
		_, _ = stream.Recv()
	}
	if answer.ID != s.id {
		return sent, nil, token, fmt.Errorf("the answer is for lease %x", answer.ID)
	}
	return sent, answer, token, s.host.Cluster.Check(m, answer.Header, 0, false)
}

// confirm reads the session key on m, and judges whether the renewal answered
// with answer can be trusted.
func (s *Session) confirm(ctx context.Context, m *cluster.Member, answer *pb.LeaseKeepAliveResponse) result {
	looks := s.looks()
	resp, told, err := s.lookAt(ctx, m, &looks[0])
	if err != nil {
		return result{err: fmt.Errorf("confirming a renewal: %w", err)}
	}
	if s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision) != nil {
		return result{over: true}
	}
	if told {
		looks[0].tell(resp, 1)
	}
	s.lookMore(ctx, m, looks[1:])
	if err := s.judgeTerm(m, answer.Header, resp.Header); err != nil {
		return result{err: err}
	}
	s.host.Cluster.Worked(m)
	return result{rev: resp.Header.Revision}
}

// JudgeKey ends the session if its key, which a linearizable read at revision
// rev showed as key (nil: not there), is not as this session wrote it.
func (s *Session) JudgeKey(key *mvccpb.KeyValue, rev int64) error {
	switch {
	case key == nil:
		return s.Gone(fmt.Sprintf("session key %q is not there at revision %d", s.key, rev))
	case key.CreateRevision != s.create || key.ModRevision != s.mod:
		return s.displaced(key.ModRevision)
	}
	return nil
}

// judgeTerm compares the headers of a renewal and of its confirming read. Had a
// newer leader promoted its lessor before the renewal ran, the read would show
// its term.
func (s *Session) judgeTerm(m *cluster.Member, renewal, read *pb.ResponseHeader) error {
	switch term := renewal.RaftTerm; {
	case term == 0:
		return fmt.Errorf("renewal on %s: raft term 0", m.Endpoint())
	case read.MemberId != renewal.MemberId:
		return fmt.Errorf("renewal on %s: member %x answered it, member %x the read", m.Endpoint(), renewal.MemberId, read.MemberId)
	case read.RaftTerm != term:
		return fmt.Errorf("renewal on %s: raft term %d, its confirming read %d", m.Endpoint(), term, read.RaftTerm)
	case term < s.host.Cluster.Term():
		return fmt.Errorf("renewal on %s: raft term %d, %d was seen", m.Endpoint(), term, s.host.Cluster.Term())
	}
	return nil
}

// lookMore looks at what did not fit beside the session key. It decides nothing
// about the session; a look that fails is made in the next round.
func (s *Session) lookMore(ctx context.Context, m *cluster.Member, looks []look) {
	for i := range looks {
		resp, told, err := s.lookAt(ctx, m, &looks[i])
		if err != nil {
			return
		}
		if told {
			looks[i].tell(resp, 1)
		}
	}
}
