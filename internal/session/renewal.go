package session

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

// A result is what one confirmed renewal came to.
type result struct {
	sent clock.Instant // read before the renewal was written
	ttl  time.Duration // as the server answered
	rev  int64         // at which the confirming read showed the session key
	more []keyRead     // what did not fit beside the session key
	over bool          // the server's word ended the session
	err  error         // why it counts for nothing; a failure is not a loss
}

// renewalBound is how long a confirmed renewal may take: at most a third of the TTL, so
// that three fit, and no longer than a server goes on trying.
func (s *Session) renewalBound() time.Duration {
	return min(s.TTL()/3, lateGrant)
}

// renew makes one confirmed renewal on m (rule N1): a renewal on a stream of
// its own, so that a late answer can never be taken for another's (N2), and
// then a linearizable read on the same member. What the read shows of acquisitions is
// reported to them here.
func (s *Session) renew(parent context.Context, m *cluster.Member) result {
	ctx, cancel := context.WithTimeout(parent, s.renewalBound())
	defer cancel()
	k, err := s.keepAlive(ctx, m)
	if err != nil {
		if k.queried && parent.Err() == nil {
			s.blame(m, err)
		}
		return result{err: fmt.Errorf("renewal on %s: %w", m.Endpoint(), err)}
	}
	defer k.drain()
	if k.answer.TTL <= 0 {
		s.Gone(fmt.Sprintf("%s answers a renewal with TTL %d", m.Endpoint(), k.answer.TTL))
		return result{over: true}
	}
	r := s.confirm(ctx, m, k.answer)
	r.sent, r.ttl = k.sent, time.Duration(k.answer.TTL)*time.Second
	return r
}

// blame grades m down because it did not renew, unless that was said of this
// lease alone: a lease that may not be renewed is no failure of the member's,
// and must not turn other sessions away from it (rule N4).
func (s *Session) blame(m *cluster.Member, err error) {
	if !cluster.IsPermissionDenied(err) && !cluster.IsTokenRefusal(err) {
		s.host.Cluster.Failed(m, err)
	}
}

// A renewal is one KeepAlive message and its answer, on a stream of its own.
type renewal struct {
	queried bool          // m was
	token   string        // with which it was
	sent    clock.Instant // read before the message was written (rule T2)
	answer  *pb.LeaseKeepAliveResponse
	stream  pb.Lease_LeaseKeepAliveClient
	cancel  context.CancelFunc // of the stream
}

// drainFor is how long the end of a renewal's stream is waited for.
const drainFor = 100 * time.Millisecond

// drain waits for the end of the stream, which was half-closed when the answer
// came: the server records a clean end, and the confirming read has not waited
// for it. One that does not end is cancelled.
func (k *renewal) drain() {
	stop := time.AfterFunc(drainFor, k.cancel)
	defer stop.Stop()
	defer k.cancel()
	_, _ = k.stream.Recv()
}

// keepAlive sends one renewal and takes its answer; with a token that was
// refused, once more with a new one, unless it is m that refuses what others accept.
func (s *Session) keepAlive(ctx context.Context, m *cluster.Member) (renewal, error) {
	k, err := s.keepAliveOnce(ctx, m)
	if cluster.IsTokenRefusal(err) && s.host.Cluster.TokenRefused(m, k.token, err) {
		k, err = s.keepAliveOnce(ctx, m)
	}
	return k, err
}

func (s *Session) keepAliveOnce(ctx context.Context, m *cluster.Member) (k renewal, err error) {
	ctx, k.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			k.cancel()
		}
	}()
	ctx, k.token, err = s.host.Cluster.Outgoing(ctx, m)
	if err != nil {
		return k, err
	}
	k.queried = true
	if k.stream, err = m.Lease().LeaseKeepAlive(ctx); err != nil {
		return k, err
	}
	k.sent = clock.Now()
	if err = k.stream.Send(&pb.LeaseKeepAliveRequest{ID: s.id}); err != nil && !errors.Is(err, io.EOF) {
		return k, err // io.EOF: Recv has the reason
	}
	if k.answer, err = k.stream.Recv(); err != nil {
		return k, err
	}
	_ = k.stream.CloseSend()
	if k.answer.ID != s.id {
		return k, fmt.Errorf("the answer is for lease %x", k.answer.ID)
	}
	return k, s.host.Cluster.Check(m, k.answer.Header, 0, false)
}

// confirm reads the session key on m, and decides whether the renewal answered
// with answer can be trusted.
func (s *Session) confirm(ctx context.Context, m *cluster.Member, answer *pb.LeaseKeepAliveResponse) result {
	reads := s.keyReads()
	resp, whole, err := s.readKeys(ctx, m, &reads[0])
	if err != nil {
		return result{err: fmt.Errorf("confirming a renewal: %w", err)}
	}
	if s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision) != nil {
		return result{over: true}
	}
	if whole {
		reads[0].deliver(resp, 1)
	}
	if err := s.validateRaftTerm(m, answer.Header, resp.Header); err != nil {
		return result{err: err}
	}
	s.host.Cluster.Worked(m)
	return result{rev: resp.Header.Revision, more: reads[1:]}
}

// ValidateKey ends the session if its key, which a linearizable read at revision
// rev showed as key (nil: not there), is not as this session wrote it.
func (s *Session) ValidateKey(key *mvccpb.KeyValue, rev int64) error {
	switch {
	case key == nil:
		return s.Gone(fmt.Sprintf("session key %q is not there at revision %d", s.key, rev))
	case key.CreateRevision != s.create || key.ModRevision != s.mod:
		return s.displaced(key.ModRevision)
	}
	return nil
}

// validateRaftTerm compares the headers of a renewal and of its confirming read. Had a
// newer leader promoted its lessor before the renewal ran, the read would show
// its term.
func (s *Session) validateRaftTerm(m *cluster.Member, renewal, read *pb.ResponseHeader) error {
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
