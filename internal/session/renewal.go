package session

import (
	"context"
	"fmt"
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

// renew makes one confirmed renewal on m (rule N1): a renewal on a stream that
// carries no other meanwhile, and ends where the answer is late, so that it can
// never be taken for another's (N2), and then a linearizable read on the same member. What the read shows of acquisitions is
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
	defer finish(k.rest...)
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

// A renewal is one KeepAlive message and its answer.
type renewal struct {
	queried bool          // m was
	token   string        // with which it was
	sent    clock.Instant // read before the message was written (rule T2)
	answer  *pb.LeaseKeepAliveResponse
	rest    []*stream // to be finished: they are not kept
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

// keepAliveOnce sends one renewal on a kept stream. Where there is none, or it
// fails, which may be only because it ended since its last renewal, it sends
// one on a new stream.
func (s *Session) keepAliveOnce(ctx context.Context, m *cluster.Member) (k renewal, err error) {
	ctx, k.token, err = s.host.Cluster.Outgoing(ctx, m)
	if err != nil {
		return k, err
	}
	k.queried = true
	if st := s.host.Renewals.take(m, k.token); st != nil {
		if err = k.on(ctx, s, st); err == nil || ctx.Err() != nil {
			return k, err
		}
	}
	st, err := openStream(ctx, m, k.token)
	if err == nil {
		err = k.on(ctx, s, st)
	}
	return k, err
}

// on makes the renewal on st, and keeps that for the next.
func (k *renewal) on(ctx context.Context, s *Session, st *stream) (err error) {
	if k.sent, k.answer, err = st.renew(ctx, s.id); err != nil {
		return err
	}
	if err = s.host.Cluster.Check(st.member, k.answer.Header, 0, false); err != nil {
		st.cancel()
		return err
	}
	k.rest = s.host.Renewals.keep(st)
	halfClose(k.rest) // so that nothing is waited for once the read has confirmed it
	return nil
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
