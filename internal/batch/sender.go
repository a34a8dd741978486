package batch

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// A Sender sends the writes of one client. It is safe for concurrent use.
type Sender struct {
	Lines
	c *cluster.Cluster

	mu     sync.Mutex
	m      machine
	timer  *time.Timer
	armed  time.Time // when timer fires, or the zero Time if it is not set
	onWait func(Write)
}

// New makes a Sender that writes to c. It ends with c.
func New(c *cluster.Cluster) *Sender { return &Sender{Lines: newLines(), c: c, m: newMachine()} }

// maxBatched is how often a write that may be executed twice is sent with others before it is sent
// alone.
const maxBatched = 2

// A verdict is the outcome of sending a part.
type verdict struct {
	resp   *pb.TxnResponse
	err    error
	next   next
	sent   bool // if it is to be sent again, whether it may have been applied
	ticket int  // the ticket, if it is to be sent alone
	avoid  *cluster.Member
}

// next says what follows a verdict on a part.
type next uint8

const (
	done        next = iota
	alone            // the caller sends it alone now, with the ticket
	resendAlone      // it was refused, perhaps because of another part, and is sent alone
	again            // its outcome is unknown, and it may be executed twice
)

// Txn sends w, alone or with others, with the same outcome as [cluster.Cluster.Txn]. It returns
// when ctx ends.
func (s *Sender) Txn(ctx context.Context, w Write) (*pb.TxnResponse, error) {
	own, sent := false, false
	for sends := 1; ; sends++ {
		p, v := s.offer(&w, own || sends > maxBatched)
		if p != nil {
			v = s.await(ctx, p)
		}
		if v.next == alone {
			v = s.sendAlone(ctx, &w, v)
		}
		switch {
		case v.next == done && v.err != nil && sent:
			return nil, cluster.Doubtful(v.err)
		case v.next == done:
			return v.resp, v.err
		}
		own, sent = v.next == resendAlone, sent || v.sent
	}
}

// offer has w wait as p, or returns the verdict that it is to be sent alone now.
func (s *Sender) offer(w *Write, own bool) (p *part, v verdict) {
	now := time.Now()
	s.mu.Lock()
	p, ticket, fx := s.m.offer(w, s.c.TakesNested(), own, now)
	v = verdict{next: alone, ticket: ticket, avoid: s.m.inflight.silent()}
	onWait := s.onWait
	s.carryOut(fx, now)
	s.mu.Unlock()
	if onWait != nil && p != nil {
		onWait(*w)
	}
	return p, v
}

// await waits until p has a verdict, or ctx ends, or, while p has not been sent, its session
// ends (rules G7, G8).
func (s *Sender) await(ctx context.Context, p *part) verdict {
	ended := p.Ended
	for {
		select {
		case <-p.decided:
			return p.verdict
		case <-ctx.Done():
			if s.takeOut(p) {
				return verdict{err: cluster.NotSent(ctx, p.Op, nil)}
			}
			select {
			case <-p.decided: // as ctx ended
				return p.verdict
			default:
			}
			return verdict{err: cluster.NotAnswered(ctx, p.Op)}
		case <-ended:
			if s.takeOut(p) {
				return verdict{err: cluster.NotSent(ctx, p.Op, errEnded)}
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

// sendAlone sends w in a separate request, with the ticket of v.
func (s *Sender) sendAlone(ctx context.Context, w *Write, v verdict) verdict {
	returned := false
	defer func() {
		if !returned { // a caller's interceptor panics
			s.finished(v.ticket)
		}
	}()
	resp, err := s.c.Txn(ctx, cluster.Request{Op: w.Op, Repeat: w.Repeat, Avoid: v.avoid, Tracker: s, Ticket: v.ticket}, w.Txn)
	returned = true
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.m.refused(w, err, now)
	} else {
		s.m.inflight.answered(v.ticket, now)
		s.m.noSpace = s.m.noSpace && !puts(ran(w.Txn, resp))
	}
	s.carryOut(s.m.finished(v.ticket, now), now)
	return verdict{resp: resp, err: err}
}

// ran is the branch of t that the server executed.
func ran(t *pb.TxnRequest, resp *pb.TxnResponse) []*pb.RequestOp {
	if resp.Succeeded {
		return t.Success
	}
	return t.Failure
}

// sendBatch sends parts as one request, and delivers a verdict to each (rule G6). No caller's
// context ends it, only the end of the Cluster.
func (s *Sender) sendBatch(parts []*part, ticket int, avoid *cluster.Member) {
	t, err := request(parts)
	if err != nil {
		s.c.Logger().Error("writes of one queue would have shared a request; they go alone", "error", err)
		s.finished(ticket)
		deliver(parts, func(int) verdict { return verdict{next: resendAlone} })
		return
	}
	resp, err := s.c.Txn(context.Background(), cluster.Request{
		Op: ops(parts), Repeat: repeat(parts), Avoid: avoid, Tracker: s, Ticket: ticket,
	}, t)
	if err != nil {
		err = cluster.Renamed("txn", err) // what the others are is of no use to any of them
	}
	s.learn(parts, ticket, resp, err)
	deliver(parts, func(i int) verdict { return outcome(parts, i, resp, err) })
	// Callers often write again as soon as they have an answer. If the request no longer counted
	// before they were scheduled, the first write would be sent alone, and the others would wait for it.
	runtime.Gosched()
	s.finished(ticket)
}

func ops(parts []*part) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Op
	}
	return strings.Join(names, cluster.Shared)
}

// outcome is the verdict on part i of a request that was answered or failed.
func outcome(parts []*part, i int, resp *pb.TxnResponse, err error) verdict {
	p := parts[i]
	switch {
	case err == nil:
		resp, err := answer(resp, i, len(parts))
		if err != nil {
			err = cluster.Unclear(p.Op, err)
		}
		return verdict{resp: resp, err: err}
	case cluster.OutcomeOf(err) != cluster.NotApplied:
		return doubtful(p, err, repeat(parts) == cluster.Always)
	case cluster.IsFinal(err): // perhaps because of another part
		return verdict{next: resendAlone}
	}
	return verdict{err: cluster.Renamed(p.Op, err)}
}

// doubtful is the verdict on p of a request that may have been applied. If repeated is set, the request
// was sent again until it failed with err.
func doubtful(p *part, err error, repeated bool) verdict {
	harmless, full := p.Repeat == cluster.Always, cluster.IsNoSpace(err)
	refused := cluster.IsFinal(err) && !full // perhaps because of one part
	switch {
	case refused && !harmless: // another copy may have been applied, and the error may be about another part
		return verdict{err: cluster.Unclear(p.Op, errors.New(err.Error()))}
	case refused, harmless && full && !p.writes: // rule G10
		return verdict{next: resendAlone, sent: true}
	case harmless && !repeated && !full:
		return verdict{next: again, sent: true}
	}
	return verdict{err: cluster.Renamed(p.Op, err)}
}

// learn processes the outcome of a request of several parts.
func (s *Sender) learn(parts []*part, ticket int, resp *pb.TxnResponse, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.m.refusedBatch(parts, err)
		return
	}
	s.m.inflight.answered(ticket, now)
	for i := 0; s.m.noSpace && i < len(parts); i++ {
		r, err := answer(resp, i, len(parts))
		s.m.noSpace = err != nil || !puts(ran(parts[i].Txn, r))
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
		p.decide(what(i))
	}
}

// carryOut carries fx out, and sets the timer if a write waits; s.mu is held.
func (s *Sender) carryOut(fx effects, now time.Time) {
	switch len(fx.send) {
	case 0:
	case 1:
		fx.send[0].decide(verdict{next: alone, ticket: fx.ticket, avoid: fx.avoid})
	default:
		// The goroutine ends within the time limit of a request, or with the Cluster, whose
		// Close waits for it.
		if !s.c.Go(func() { s.sendBatch(fx.send, fx.ticket, fx.avoid) }) {
			s.m.inflight.give(fx.ticket)
			deliver(fx.send, func(i int) verdict {
				return verdict{err: cluster.NotSent(context.Background(), fx.send[i].Op, cluster.ErrClosed)}
			})
		}
	}
	if len(s.m.gather.parts) > 0 {
		s.arm(now)
	}
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

// Began implements [cluster.Tracker].
func (s *Sender) Began(ticket int, m *cluster.Member, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.inflight.began(ticket, m, now)
}

// Paused implements [cluster.Tracker].
func (s *Sender) Paused(ticket int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carryOut(s.m.paused(ticket, now), now)
}

// Hold is for tests. After it every write waits up to d for others, and n are sent in one request. If n
// is 0, each is sent alone. onWait, if not nil, is called for each write that waits.
func (s *Sender) Hold(d time.Duration, n int, onWait func(Write)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.hold, s.m.limits.parts, s.onWait = d, n, onWait
}
