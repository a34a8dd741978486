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

// A result is what one confirmed renewal came to.
type result struct {
	sent  clock.Instant // read before the renewal was written
	ttl   time.Duration // as the server answered
	rev   int64         // at which the confirming read showed the session key
	more  []keyRead     // what did not fit beside the session key
	over  bool          // the server's word ended the session
	apart bool          // its keys were refused beside others: it is to share no batch for a while
	err   error         // why it counts for nothing; a failure is not a loss
}

// renewalBound is how long a confirmed renewal may take: at most a third of the TTL, so
// that three fit, and no longer than a server goes on trying.
func (s *Session) renewalBound() time.Duration {
	return min(s.TTL()/3, lateGrant)
}

// renew makes one confirmed renewal of the session alone on m. What the read shows of
// acquisitions is reported to them here.
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

// A renewal is a confirmed renewal on one member (rule N1), of one session or of a batch
// of them: renewals on a stream that carries no others meanwhile, and ends
// where an answer is late, so that none can ever be taken for another's (N2); and then a
// linearizable read on the same member. Each part is judged by its own answer and its
// own part of the read.
type renewal struct {
	host     Host
	member   *cluster.Member
	parts    []*part
	answered int       // so many, from the first on
	queried  bool      // the member was
	token    string    // with which it was
	rest     []*stream // to be finished: they are not kept
}

// A part is one session's part of a renewal.
type part struct {
	s      *Session
	answer *pb.LeaseKeepAliveResponse
	at     int      // where its session key is in the read
	read   *keyRead // its keys beside that, which follow; nil: they were not read
	result
}

// blame grades the member down because it did not renew, unless that was said of a
// lease alone: a lease that may not be renewed is no failure of the member's,
// and must not turn other sessions away from it (rule N4).
func (k *renewal) blame(err error) {
	if k.queried && !cluster.IsPermissionDenied(err) && !cluster.IsTokenRefusal(err) {
		k.host.Cluster.Failed(k.member, err)
	}
}

// keepAlive sends the renewals and takes their answers; with a token that was
// refused, what is unanswered goes once more with a new one, unless it is the member that refuses what
// others accept. The error is that of the parts that were not answered.
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

// keepAliveOnce sends the renewals on a kept stream. Where there is none, or it
// answers nothing, which may be only because it ended since its last renewal, it sends
// them on a new stream.
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

// on makes what is unanswered of the renewal on st, and keeps that for the next.
func (k *renewal) on(ctx context.Context, st *stream) error {
	n, err := st.renew(ctx, k.host.Cluster, k.parts[k.answered:])
	k.answered += n
	if err != nil {
		return err
	}
	k.rest = k.host.Renewals.keep(st)
	halfClose(k.rest) // so that nothing is waited for once the read has confirmed it
	return nil
}

// finish closes the streams that are not kept.
func (k *renewal) finish() {
	if len(k.rest) > 0 {
		finish(k.rest...)
	}
}

// confirm reads the session keys of the parts that were answered on the same member, and
// decides of each whether its renewal can be trusted.
func (k *renewal) confirm(ctx context.Context) {
	live := make([]*part, 0, k.answered)
	for _, p := range k.parts[:k.answered] {
		if p.answer.TTL <= 0 {
			p.s.Gone(fmt.Sprintf("%s answers a renewal with TTL %d", k.member.Endpoint(), p.answer.TTL))
			p.over = true
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
		p.judge(k.member, resp)
		confirmed = confirmed || p.err == nil && !p.over
	}
	if confirmed {
		k.host.Cluster.Worked(k.member)
	}
}

// judge decides whether the read confirms the part's renewal.
func (p *part) judge(m *cluster.Member, resp *pb.TxnResponse) {
	if p.s.ValidateKey(txn.KV(resp, p.at), resp.Header.Revision) != nil {
		p.over = true
		return
	}
	if p.read != nil {
		p.read.deliver(resp, p.at+1)
	}
	p.err = p.s.validateRaftTerm(m, p.answer.Header, resp.Header)
	p.rev = resp.Header.Revision
}

// read reads the session keys of live, and what fits of their other keys.
func (k *renewal) read(ctx context.Context, live []*part) (*pb.TxnResponse, error) {
	if len(live) == 1 {
		return live[0].readAlone(ctx, k.member)
	}
	room := k.host.Renewals.readOps() - len(live)
	ops := make([]*pb.RequestOp, 0, 2*len(live))
	for _, p := range live {
		p.at = len(ops)
		ops = append(ops, p.s.ownRead)
		reads := p.s.keyReads()
		if len(reads[0].ops) > max(room, 0) { // what has come since the batch was made may not fit
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
	case err == nil && len(resp.Responses) != len(ops): // what is missing was not shown to be gone
		err = errShort
	}
	return resp, err
}

var errShort = errors.New("the answer is not one to all that was read")

// readAlone reads the part's keys, and notes where those beside the session key were refused.
func (p *part) readAlone(ctx context.Context, m *cluster.Member) (*pb.TxnResponse, error) {
	reads := p.s.keyReads()
	resp, whole, err := p.s.readKeys(ctx, m, &reads[0])
	if whole {
		p.read = &reads[0]
	}
	p.more, p.apart = reads[1:], !whole
	return resp, err
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
