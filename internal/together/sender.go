package together

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// A Sender sends the writes of one client. It is safe for concurrent use.
type Sender struct {
	c *cluster.Cluster

	mu      sync.Mutex
	m       machine
	timer   *time.Timer
	armed   time.Time // when timer fires; the zero Time: it is not set
	company func(Write)
}

// New makes a Sender that writes to c. It ends with c.
func New(c *cluster.Cluster) *Sender { return &Sender{c: c, m: newMachine()} }

// maxTogether is how often a write that may be done twice is sent with others before it is sent
// alone.
const maxTogether = 2

// A verdict is the outcome of sending a part.
type verdict struct {
	resp   *pb.TxnResponse
	err    error
	next   next
	sent   bool // if it is to be sent again: it may have been applied
	ticket int  // the ticket, if it is to be sent alone
	avoid  *cluster.Member
}

// next says what happens to a part after its verdict.
type next uint8

const (
	done        next = iota
	alone            // the caller sends it alone, now, with the ticket
	resendAlone      // it was refused, perhaps because of another part, and is sent alone
	again            // its outcome is unknown, and it may be done twice
)

// Txn sends w, alone or with others, with the same outcome as [cluster.Cluster.Txn]. It returns
// when ctx ends.
func (s *Sender) Txn(ctx context.Context, w Write) (*pb.TxnResponse, error) {
	own, sent := false, false
	for sends := 1; ; sends++ {
		resp, v, err := s.send(ctx, &w, own || sends > maxTogether)
		switch {
		case v.next == done && err != nil && sent:
			return nil, cluster.Doubtful(err)
		case v.next == done:
			return resp, err
		}
		own, sent = v.next == resendAlone, sent || v.sent
	}
}

// send sends w once, alone or with others. Unless v.next is done, w has to be sent again.
func (s *Sender) send(ctx context.Context, w *Write, own bool) (resp *pb.TxnResponse, v verdict, err error) {
	p, ticket, avoid := s.offer(w, own)
	if p != nil {
		if v, err = s.await(ctx, p); err != nil {
			return nil, v, err
		} else if v.next != alone {
			return v.resp, v, v.err
		}
		ticket, avoid = v.ticket, v.avoid
	}
	resp, err = s.sendAlone(ctx, w, ticket, avoid)
	return resp, verdict{}, err
}

func (s *Sender) offer(w *Write, alone bool) (p *part, ticket int, avoid *cluster.Member) {
	now := time.Now()
	s.mu.Lock()
	p, ticket, fx := s.m.offer(w, s.c.TakesNested(), alone, now)
	avoid = s.m.lanes.silent()
	company := s.company
	s.carryOut(fx, now)
	s.mu.Unlock()
	if company != nil && p != nil {
		company(*w)
	}
	return p, ticket, avoid
}

// await waits until p has a verdict, or ctx ends, or, while p has not been sent, its session
// ends (rules G7, G8).
func (s *Sender) await(ctx context.Context, p *part) (verdict, error) {
	ended := p.Ended
	for {
		select {
		case v := <-p.verdict:
			return v, nil
		case <-ctx.Done():
			if s.takeOut(p) {
				return verdict{}, cluster.NotSent(ctx, p.Op, nil)
			}
			select {
			case v := <-p.verdict: // it arrived as ctx ended
				return v, nil
			default:
			}
			return verdict{}, cluster.NotAnswered(ctx, p.Op)
		case <-ended:
			if s.takeOut(p) {
				return verdict{}, cluster.NotSent(ctx, p.Op, errEnded)
			}
			ended = nil
		}
	}
}

var errEnded = errors.New("the session had ended before it was sent")

func (s *Sender) takeOut(p *part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.gather.remove(p)
}

// sendAlone sends w as a request of its own.
func (s *Sender) sendAlone(ctx context.Context, w *Write, ticket int, avoid *cluster.Member) (*pb.TxnResponse, error) {
	resp, err := s.c.Txn(ctx, cluster.Request{Op: w.Op, Repeat: w.Repeat, Avoid: avoid, Lanes: s, Ticket: ticket}, w.Txn)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.m.refused(w, err, now)
	} else if s.m.noSpace && puts(ran(w.Txn, resp)) {
		s.m.put()
	}
	s.carryOut(s.m.finished(ticket, now), now)
	return resp, err
}

// ran is the branch of t that the server executed.
func ran(t *pb.TxnRequest, resp *pb.TxnResponse) []*pb.RequestOp {
	if resp.Succeeded {
		return t.Success
	}
	return t.Failure
}

// sendTogether sends parts as one request, and delivers a verdict to each (rule G6). No
// caller's context bounds it, only the Cluster's end.
func (s *Sender) sendTogether(parts []*part, ticket int, avoid *cluster.Member) {
	t, err := request(parts)
	if err != nil {
		s.c.Logger().Error("writes of one queue would have shared a request; they go alone", "error", err)
		s.finished(ticket)
		deliver(parts, func(int) verdict { return verdict{next: resendAlone} })
		return
	}
	resp, err := s.c.Txn(context.Background(), cluster.Request{
		Op: "txn", Parts: func() []string { return ops(parts) }, Repeat: repeat(parts), Avoid: avoid, Lanes: s, Ticket: ticket,
	}, t)
	s.learn(parts, resp, err)
	deliver(parts, func(i int) verdict { return outcome(parts, i, resp, err) })
	// Callers often write again as soon as they have an answer. If the lane were free before
	// they had a turn, the first of them would go alone, and the others would wait for it.
	runtime.Gosched()
	s.finished(ticket)
}

func ops(parts []*part) (names []string) {
	for _, p := range parts {
		names = append(names, p.Op)
	}
	return names
}

// outcome is the verdict on part i of a request that was answered or failed.
func outcome(parts []*part, i int, resp *pb.TxnResponse, err error) verdict {
	p := parts[i]
	if err == nil {
		resp, err := answer(resp, i, len(parts))
		if err != nil {
			err = cluster.Unclear(p.Op, err)
		}
		return verdict{resp: resp, err: err}
	}
	unknown := cluster.OutcomeOf(err) != cluster.NotApplied
	refused := cluster.IsFinal(err) && !cluster.IsNoSpace(err) // perhaps because of one of the parts
	switch {
	case !unknown && cluster.IsFinal(err):
		return verdict{next: resendAlone}
	case unknown && p.Repeat == cluster.Always && refused:
		return verdict{next: resendAlone, sent: true}
	case unknown && p.Repeat == cluster.Always && cluster.IsNoSpace(err) && !p.writes:
		return verdict{next: resendAlone, sent: true} // rule G10
	case unknown && refused: // another copy may have been applied, and the error may be about another part
		return verdict{err: cluster.Unclear(p.Op, errors.New(err.Error()))}
	case unknown && p.Repeat == cluster.Always && !cluster.IsFinal(err) && repeat(parts) != cluster.Always:
		return verdict{next: again, sent: true}
	}
	return verdict{err: cluster.Renamed(p.Op, err)}
}

// learn processes the outcome of a request of several parts.
func (s *Sender) learn(parts []*part, resp *pb.TxnResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.m.refusedTogether(parts, err)
	} else if s.m.noSpace {
		for i, p := range parts {
			if r, err := answer(resp, i, len(parts)); err == nil && puts(ran(p.Txn, r)) {
				s.m.put()
			}
		}
	}
}

func (s *Sender) finished(ticket int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carryOut(s.m.finished(ticket, now), now)
}

func deliver(parts []*part, what func(i int) verdict) {
	for i, p := range parts {
		p.verdict <- what(i) // does not block: the channel has room, and each part gets one verdict
	}
}

// carryOut carries fx out, and sets the timer if a write waits; s.mu is held.
func (s *Sender) carryOut(fx effects, now time.Time) {
	switch len(fx.send) {
	case 0:
	case 1:
		fx.send[0].verdict <- verdict{next: alone, ticket: fx.ticket, avoid: fx.avoid}
	default:
		// The goroutine ends within the time limit of a request, or with the Cluster, whose
		// Close waits for it.
		if !s.c.Go(func() { s.sendTogether(fx.send, fx.ticket, fx.avoid) }) {
			s.m.lanes.give(fx.ticket)
			deliver(fx.send, func(i int) verdict {
				return verdict{err: cluster.NotSent(context.Background(), fx.send[i].Op, cluster.ErrClosed)}
			})
		}
	}
	s.arm(now)
}

// arm sets the timer to when the machine needs the next tick, unless it fires earlier. A timer
// that fires too early is set again.
func (s *Sender) arm(now time.Time) {
	at := s.m.wake()
	if at.IsZero() || !s.armed.IsZero() && !at.Before(s.armed) {
		return
	}
	s.armed = at
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
		return
	}
	s.timer.Reset(at.Sub(now))
}

func (s *Sender) tick() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = time.Time{}
	s.carryOut(s.m.tick(now), now)
}

// Began implements [cluster.Lanes].
func (s *Sender) Began(ticket int, m *cluster.Member, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.began(ticket, m, now)
}

// Ended implements [cluster.Lanes].
func (s *Sender) Ended(ticket int, answered bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carryOut(s.m.ended(ticket, answered, now), now)
}

// Hold is for tests. From now on every write waits up to d for others, and n are sent in one
// request; with n 0 each is sent alone. company, if not nil, is called for each that waits.
func (s *Sender) Hold(d time.Duration, n int, company func(Write)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.hold, s.m.limits.parts, s.company = d, n, company
}
