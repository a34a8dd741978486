package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A result is the result of one confirmed renewal.
type result struct {
	sent        clock.Instant // read before the renewal was written
	ttl         time.Duration // as the server answered
	rev         int64         // the revision at which the confirming read showed the session key
	more        []keyRead     // the reads that did not fit beside the session key
	ended       bool          // the server's answer ended the session
	unbatchable bool          // the server refused to read its keys, so it joins no batch for a while
	err         error         // why it does not count; a failure is not a loss
}

// renewalBound is how long a confirmed renewal may take: at most a third of the TTL, so that
// three fit, and not longer than a server keeps trying.
func (s *Session) renewalBound() time.Duration {
	return min(s.TTL()/3, lateGrant)
}

// renew makes one confirmed renewal of the session, by itself, on m. It also delivers to the
// dependents what the read showed of their keys.
func (s *Session) renew(parent context.Context, m *cluster.Member) result {
	ctx, cancel := context.WithTimeout(parent, s.renewalBound())
	defer cancel()
	p := part{s: s}
	k := renewal{host: s.host, member: m, parts: []*part{&p}}
	if err := k.keepAlive(ctx); err != nil && parent.Err() == nil {
		k.blame(err)
	}
	defer k.finish()
	k.confirm(ctx)
	return p.result
}

// A renewal is a confirmed renewal on one member (rule N1), of one session or of a batch of
// them. First it renews on a stream, which carries no other renewals meanwhile, and which is
// closed if an answer is late, so that no answer is ever taken for another's (N2). Then it
// makes a linearizable read on the same member. Each part is judged by its own answer and its
// own part of the read.
type renewal struct {
	host     Host
	member   *cluster.Member
	parts    []*part
	answered int       // how many parts were answered: the first ones
	queried  bool      // the member was sent a request
	token    string    // the token of that request
	rest     []*stream // streams to be closed, because they are not kept
}

// A part is one session's share of a renewal.
type part struct {
	s      *Session
	answer *pb.LeaseKeepAliveResponse
	at     int      // the index of its session key in the read
	read   *keyRead // its other keys, which follow the session key in the read; nil: they were not read
	result
}

// blame grades the member down because it did not renew, unless the answer was about one lease
// only: a lease that may not be renewed is not a fault of the member, and must not turn other
// sessions away from it (rule N4).
func (k *renewal) blame(err error) {
	if k.queried && !cluster.IsPermissionDenied(err) && !cluster.IsTokenRefusal(err) {
		k.host.Cluster.Failed(k.member, err)
	}
}

// keepAlive sends the renewals and receives their answers. If the token was refused, it sends
// the unanswered ones once more with a new token, unless this member refuses tokens that others
// accept. The error is that of the unanswered parts.
func (k *renewal) keepAlive(ctx context.Context) error {
	err := k.keepAliveOnce(ctx)
	if cluster.IsTokenRefusal(err) && k.host.Cluster.TokenRefused(k.member, k.token, err) {
		err = k.keepAliveOnce(ctx)
	}
	for _, p := range k.parts[k.answered:] {
		p.err = fmt.Errorf("renewal on %s: %w", k.member.Endpoint(), err)
	}
	return err
}

// keepAliveOnce sends the renewals on a kept stream. If there is none, or if it answers
// nothing, perhaps only because it was closed since its last renewal, it sends them on a new
// stream.
func (k *renewal) keepAliveOnce(ctx context.Context) (err error) {
	ctx, k.token, err = k.host.Cluster.Outgoing(ctx, k.member)
	if err != nil {
		return err
	}
	k.queried = true
	if st := k.host.Renewals.take(k.member, k.token); st != nil {
		before := k.answered
		if err = k.on(ctx, st); err == nil || ctx.Err() != nil || k.answered > before {
			return err
		}
	}
	st, err := openStream(ctx, k.member, k.token)
	if err == nil {
		err = k.on(ctx, st)
	}
	return err
}

// on sends the unanswered renewals on st, and keeps st for the next renewal.
func (k *renewal) on(ctx context.Context, st *stream) error {
	n, err := st.renew(ctx, k.host.Cluster, k.parts[k.answered:])
	k.answered += n
	if err != nil {
		return err
	}
	k.rest = k.host.Renewals.keep(st)
	halfClose(k.rest) // so that closing them need not wait once the read has confirmed the renewal
	return nil
}

// finish closes the streams that are not kept.
func (k *renewal) finish() {
	if len(k.rest) > 0 {
		finish(k.rest...)
	}
}

// confirm reads the session keys of the parts that were answered, on the same member, and
// decides for each whether its renewal can be trusted.
func (k *renewal) confirm(ctx context.Context) {
	live := make([]*part, 0, k.answered)
	for _, p := range k.parts[:k.answered] {
		if p.answer.TTL <= 0 {
			p.s.Gone(fmt.Sprintf("%s answers a renewal with TTL %d", k.member.Endpoint(), p.answer.TTL))
			p.ended = true
			continue
		}
		p.ttl = time.Duration(p.answer.TTL) * time.Second
		live = append(live, p)
	}
	if len(live) == 0 {
		return
	}
	resp, err := k.read(ctx, live)
	confirmed := false
	for _, p := range live {
		if err != nil {
			p.err = fmt.Errorf("confirming a renewal: %w", err)
			continue
		}
		p.validate(k.member, resp)
		confirmed = confirmed || p.err == nil && !p.ended
	}
	if confirmed {
		k.host.Cluster.Worked(k.member)
	}
}

// validate decides whether the read confirms the part's renewal.
func (p *part) validate(m *cluster.Member, resp *pb.TxnResponse) {
	if p.s.ValidateKey(txn.KV(resp, p.at), resp.Header.Revision) != nil {
		p.ended = true
		return
	}
	if p.read != nil {
		p.read.deliver(resp, p.at+1)
	}
	p.err = p.s.validateRaftTerm(m, p.answer.Header, resp.Header)
	p.rev = resp.Header.Revision
}

// read reads the session keys of live, and as many of their other keys as fit.
func (k *renewal) read(ctx context.Context, live []*part) (*pb.TxnResponse, error) {
	if len(live) == 1 {
		return live[0].readAlone(ctx, k.member)
	}
	room := k.host.Renewals.readOps() - len(live)
	ops := make([]*pb.RequestOp, 0, 2*len(live))
	for _, p := range live {
		p.at = len(ops)
		ops = append(ops, p.s.ReadKey())
		reads := p.s.keyReads()
		if len(reads[0].ops) > max(room, 0) { // dependents added since the batch was made may not fit
			p.more = reads
			continue
		}
		p.read, p.more = &reads[0], reads[1:]
		ops, room = append(ops, p.read.ops...), room-len(p.read.ops)
	}
	resp, err := k.host.Cluster.Txn(ctx, cluster.Request{Op: "confirm sessions", On: k.member}, &pb.TxnRequest{Success: ops})
	switch {
	case cluster.IsTooManyOps(err):
		k.host.Renewals.readRefused(len(ops))
	case err == nil && len(resp.Responses) != len(ops): // a missing answer does not show that a key is gone
		err = errShort
	}
	return resp, err
}

var errShort = errors.New("the answer is not one to all that was read")

// readAlone reads the part's keys, and notes whether the read of its dependents' keys was
// refused.
func (p *part) readAlone(ctx context.Context, m *cluster.Member) (*pb.TxnResponse, error) {
	reads := p.s.keyReads()
	resp, whole, err := p.s.readKeys(ctx, m, &reads[0])
	if whole {
		p.read = &reads[0]
	}
	p.more, p.unbatchable = reads[1:], !whole
	return resp, err
}

// ValidateKey ends the session if its key, as a linearizable read at revision rev showed it
// (nil: it does not exist), is not as this session wrote it.
func (s *Session) ValidateKey(key *mvccpb.KeyValue, rev int64) error {
	switch {
	case key == nil:
		return s.Gone(fmt.Sprintf("session key %q is not there at revision %d", s.key, rev))
	case key.CreateRevision != s.create || key.ModRevision != s.mod:
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
