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
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A result is the result of one confirmed renewal.
type result struct {
	sent  clock.Instant // read before the renewal was written
	ttl   time.Duration // as the server answered, less what the lock-delay adds
	rev   int64         // the revision at which the confirming read showed the session key
	more  []keyRead     // the reads that did not fit beside the session key
	left  time.Duration // how long the session was still valid before
	ended bool          // the server's answer ended the session
	err   error         // why the renewal does not count; a failure is not a loss
}

// renewalBound is how long a renewal may take if nothing is answered, which is no longer than a server
// keeps trying.
func (s *Session) renewalBound() time.Duration {
	return min(s.validity.window().bound(), lateGrant)
}

// renew makes one confirmed renewal of the session on m. It also delivers what the read showed of the
// dependents' keys to them.
func (s *Session) renew(parent context.Context, m *cluster.Member) result {
	bound := s.renewalBound()
	ctx, cancel := context.WithTimeout(parent, bound)
	defer cancel() // ends the stream, too
	k, began := renewal{s: s, member: m}, time.Now()
	if err := k.keepAlive(ctx); err != nil {
		if parent.Err() == nil {
			k.blame(err)
		}
		k.err = fmt.Errorf("renewal on %s: %w", m.Endpoint(), err)
		return k.result
	}
	defer k.finish(cancel)
	rest, end := context.WithTimeout(parent, k.readBound(bound-time.Since(began)))
	defer end()
	k.confirm(rest)
	return k.result
}

// A renewal is a confirmed renewal of a session on one member (rule N1). First it renews on a new
// stream that nothing else uses, so that no answer is ever taken for another's (N2). Then it makes a
// linearizable read on the same member.
type renewal struct {
	s       *Session
	member  *cluster.Member
	queried bool   // the member was sent a request
	token   string // the auth token of that request
	stream  pb.Lease_LeaseKeepAliveClient
	answer  *pb.LeaseKeepAliveResponse
	result
}

// readBound is how long the read may take after the renewal was answered: what is left, or twice as long as the
// answer took if that is more. So a slow network ends no renewal while there is hope for it, and a
// member that says nothing keeps no place for longer.
func (k *renewal) readBound(left time.Duration) time.Duration {
	return min(max(left, 2*clock.Now().Sub(k.sent)), lateGrant)
}

// blame grades the member down because it did not renew. It does not if the answer was about one lease
// only, because a lease that may not be renewed is not a fault of the member, and must not turn other
// sessions away from it (rule N4).
func (k *renewal) blame(err error) {
	if k.queried && !cluster.IsPermissionDenied(err) && !cluster.IsTokenRefusal(err) {
		k.s.host.Cluster.Failed(k.member, err)
	}
}

// keepAlive sends the renewal and receives its answer. If the server refused the token, it sends the
// renewal once more with a new token, unless this member refuses tokens that others accept.
func (k *renewal) keepAlive(ctx context.Context) error {
	err := k.keepAliveOnce(ctx)
	if cluster.IsTokenRefusal(err) && k.s.host.Cluster.TokenRefused(k.member, k.token, err) {
		err = k.keepAliveOnce(ctx)
	}
	return err
}

// keepAliveOnce sends the renewal on a new stream, which it closes after the answer. The stream
// ends with ctx at the latest, and a late answer is dropped with it.
func (k *renewal) keepAliveOnce(ctx context.Context) (err error) {
	c := k.s.host.Cluster
	ctx, k.token, err = c.Outgoing(ctx, k.member)
	if err != nil {
		return err
	}
	k.queried = true
	if k.stream, err = etcdapi.LeaseKeepAlive(ctx, k.member); err != nil {
		return err
	}
	k.sent = clock.Now() // before the message is written (rule T2)
	err = k.stream.Send(&pb.LeaseKeepAliveRequest{ID: k.s.id})
	if err != nil && !errors.Is(err, io.EOF) { // after EOF, Recv returns the reason
		return err
	}
	if k.answer, err = k.stream.Recv(); err != nil {
		return err
	}
	if k.answer.ID != k.s.id {
		return fmt.Errorf("the answer is for lease %x", k.answer.ID)
	}
	_ = k.stream.CloseSend() // the server ends the stream while the read is under way
	return c.Check(k.member, k.answer.Header, 0, false)
}

// finishFor is how long finish waits for the end of a stream.
const finishFor = 100 * time.Millisecond

// finish waits for the end of the stream, so that the server records a clean end. A stream that
// does not end in time is cancelled.
func (k *renewal) finish(cancel context.CancelFunc) {
	defer time.AfterFunc(finishFor, cancel).Stop()
	_, _ = k.stream.Recv()
}

// confirm reads the session key on the same member, with the dependents' keys, and decides
// whether the renewal can be trusted.
func (k *renewal) confirm(ctx context.Context) {
	s := k.s
	if k.answer.TTL <= 0 {
		_ = s.Gone(fmt.Sprintf("%s answers a renewal with TTL %d", k.member.Endpoint(), k.answer.TTL))
		k.ended = true
		return
	}
	k.ttl = time.Duration(k.answer.TTL)*time.Second - s.validity.reserve()
	reads := s.keyReads()
	k.more = reads[1:]
	resp, whole, err := s.readKeys(ctx, k.member, &reads[0])
	if err != nil {
		k.err = fmt.Errorf("confirming a renewal: %w", err)
		return
	}
	if s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision) != nil {
		k.ended = true
		return
	}
	if whole {
		reads[0].deliver(resp, 1)
	}
	k.rev = resp.Header.Revision
	if k.err = s.validateRaftTerm(k.member, k.answer.Header, resp.Header); k.err == nil {
		s.host.Cluster.Worked(k.member)
	}
}

// ValidateKey ends the session if the session key is not as this session wrote it. key is what a
// linearizable read at revision rev showed, or nil if it showed no key.
func (s *Session) ValidateKey(key *mvccpb.KeyValue, rev int64) error {
	switch {
	case key == nil:
		return s.Gone(fmt.Sprintf("session key %q is not there at revision %d", s.own.key, rev))
	case key.CreateRevision != s.own.create || key.ModRevision != s.own.mod:
		return s.displaced(key.ModRevision)
	}
	return nil
}

// validateRaftTerm compares the headers of a renewal and of its confirming read. If a newer
// leader had promoted its lessor before the renewal was handled, the read would show the newer raft
// term.
func (s *Session) validateRaftTerm(m *cluster.Member, renewal, read *pb.ResponseHeader) error {
	switch raftTerm := renewal.RaftTerm; {
	case raftTerm == 0:
		return fmt.Errorf("renewal on %s: raft term 0", m.Endpoint())
	case read.MemberId != renewal.MemberId:
		return fmt.Errorf("renewal on %s: member %x answered it, member %x the read", m.Endpoint(), renewal.MemberId, read.MemberId)
	case read.RaftTerm != raftTerm:
		return fmt.Errorf("renewal on %s: raft term %d, its confirming read %d", m.Endpoint(), raftTerm, read.RaftTerm)
	case raftTerm < s.host.Cluster.RaftTerm():
		return fmt.Errorf("renewal on %s: raft term %d, %d was seen", m.Endpoint(), raftTerm, s.host.Cluster.RaftTerm())
	}
	return nil
}
