package handlers

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	pb "github.com/pawl-locks/pawl/cmd/pawld/pawlv1"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

// calls implements the eight calls of the API.
type calls struct{ s *Server }

// request makes a service.Request from what each call on a session has in common.
func (c *calls) request(ctx context.Context, session string, waitMS int32) (service.Request, error) {
	who := callerOf(ctx)
	if err := checkID("session", session); err != nil {
		return service.Request{}, err
	}
	if waitMS < 0 {
		return service.Request{}, invalid("wait_ms is %d, want 0 or more", waitMS)
	}
	return service.Request{Session: session, Identity: who.identity, Arrival: who.arrival, Wait: millis(waitMS), PID: peer.PID(ctx)}, nil
}

// Acquire implements the service.
func (c *calls) Acquire(ctx context.Context, r *connect.Request[pb.AcquireRequest]) (*connect.Response[pb.AcquireResponse], error) {
	m := r.Msg
	who := callerOf(ctx)
	req, err := c.request(ctx, m.Session, m.WaitMs)
	if err != nil {
		return nil, err
	}
	if err := checkID("request_id", m.RequestId); err != nil {
		return nil, err
	}
	want, err := wanted(m, who.identity)
	if err != nil {
		return nil, err
	}
	for _, name := range want.Names {
		if err := c.may(ctx, name); err != nil {
			return nil, err
		}
	}
	if m.Bind {
		req.Bind = func() (service.Process, error) { return peer.ProcessOf(ctx) }
	}
	a, err := c.s.Locks.Acquire(ctx, req, m.RequestId, millis(m.TtlMs), want, c.s.Policy.Locks(who.identity))
	if err != nil {
		return nil, refusal(err)
	}
	answer := &pb.AcquireResponse{}
	switch {
	case a.Busy:
		answer.State, answer.Holder = pb.State_BUSY, c.holder(ctx, want)
	case a.State == registry.Waiting:
		answer.State, answer.Position = pb.State_WAITING, int32(max(a.Position, 0))
	default:
		answer.Lock = listed(a.Lock)
		answer.State = answer.Lock.State
	}
	return connect.NewResponse(answer), nil
}

// Renew implements the service.
func (c *calls) Renew(ctx context.Context, r *connect.Request[pb.RenewRequest]) (*connect.Response[pb.RenewResponse], error) {
	req, err := c.request(ctx, r.Msg.Session, r.Msg.WaitMs)
	if err != nil {
		return nil, err
	}
	for _, id := range r.Msg.Settled {
		if err := checkID("settled", id); err != nil {
			return nil, err
		}
	}
	req.Wanted = r.Msg.Wanted
	all, err := c.s.Locks.Renew(ctx, req, r.Msg.Settled)
	if err != nil {
		return nil, refusal(err)
	}
	answer := &pb.RenewResponse{}
	for _, l := range all {
		answer.Locks = append(answer.Locks, listed(l))
	}
	return connect.NewResponse(answer), nil
}

// Release implements the service.
func (c *calls) Release(ctx context.Context, r *connect.Request[pb.ReleaseRequest]) (*connect.Response[pb.ReleaseResponse], error) {
	req, err := c.request(ctx, r.Msg.Session, 0)
	if err != nil {
		return nil, err
	}
	for _, id := range r.Msg.RequestIds {
		if err := checkID("request_ids", id); err != nil {
			return nil, err
		}
	}
	results, err := c.s.Locks.Release(ctx, req, r.Msg.RequestIds)
	if err != nil {
		return nil, refusal(err)
	}
	answer := &pb.ReleaseResponse{}
	for _, x := range results {
		answer.Results = append(answer.Results, &pb.ReleaseResponse_Result{RequestId: x.Request, Released: x.Released, Why: why(x.Why)})
	}
	return connect.NewResponse(answer), nil
}

// Confirm implements the service.
func (c *calls) Confirm(ctx context.Context, r *connect.Request[pb.ConfirmRequest]) (*connect.Response[pb.ConfirmResponse], error) {
	req, err := c.request(ctx, r.Msg.Session, 0)
	if err == nil {
		err = checkID("request_id", r.Msg.RequestId)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdWait)
	defer cancel()
	l, err := c.s.Locks.Confirm(ctx, req, r.Msg.RequestId)
	if err != nil {
		return nil, refusal(err)
	}
	return connect.NewResponse(&pb.ConfirmResponse{Lock: listed(l)}), nil
}

// etcdWait bounds requests to etcd if the caller does not.
const etcdWait = 5 * time.Second

// Proclaim implements the service.
func (c *calls) Proclaim(ctx context.Context, r *connect.Request[pb.ProclaimRequest]) (*connect.Response[pb.ProclaimResponse], error) {
	req, err := c.request(ctx, r.Msg.Session, 0)
	if err == nil {
		err = checkID("request_id", r.Msg.RequestId)
	}
	if err == nil {
		err = checkValue(r.Msg.Value)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdWait)
	defer cancel()
	l, err := c.s.Locks.Proclaim(ctx, req, r.Msg.RequestId, r.Msg.Value, func(name string) error { return c.may(ctx, name) })
	if err != nil {
		return nil, refusal(err)
	}
	return connect.NewResponse(&pb.ProclaimResponse{Lock: listed(l)}), nil
}

// Progress implements the service.
func (c *calls) Progress(ctx context.Context, r *connect.Request[pb.ProgressRequest]) (*connect.Response[pb.ProgressResponse], error) {
	req, err := c.request(ctx, r.Msg.Session, 0)
	if err == nil {
		err = checkID("request_id", r.Msg.RequestId)
	}
	if err != nil {
		return nil, err
	}
	l, err := c.s.Locks.Progress(req, r.Msg.RequestId)
	if err != nil {
		return nil, refusal(err)
	}
	return connect.NewResponse(&pb.ProgressResponse{Lock: listed(l)}), nil
}

// maxLeaderWait bounds how long a call of Leader may be parked.
const maxLeaderWait = 30 * time.Second

// nobody is the revision of a name without keys. No key has it.
const nobody = 1

// Leader implements the service.
func (c *calls) Leader(ctx context.Context, r *connect.Request[pb.LeaderRequest]) (*connect.Response[pb.LeaderResponse], error) {
	m := r.Msg
	switch {
	case m.WaitMs < 0 || millis(m.WaitMs) > maxLeaderWait:
		return nil, invalid("wait_ms is %d, want 0 to %d", m.WaitMs, maxLeaderWait.Milliseconds())
	case m.AfterRevision < 0:
		return nil, invalid("after_revision is %d, want 0 or an answer's revision", m.AfterRevision)
	}
	if err := c.checkName(ctx, "name", m.Name); err != nil {
		return nil, err
	}
	arrival := callerOf(ctx).arrival
	ctx, end, err := c.s.Locks.Serving(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	defer end()
	late := time.AfterFunc(etcdWait, end) // bounds the first answer, then the wait for a change
	defer late.Stop()
	var last *pb.LeaderResponse
	for l, err := range elect.Observe(ctx, c.s.Client, m.Name, elect.Options{}) {
		if err != nil && last == nil {
			return nil, refusal(c.s.Locks.Silent(ctx, err))
		}
		if err != nil {
			break // the time to park has passed, or pawld stops; last is the answer
		}
		if last = c.leader(ctx, m.Name, l); m.AfterRevision == 0 || last.Revision != m.AfterRevision {
			break
		}
		late.Reset(max(millis(m.WaitMs)-clock.Now().Sub(arrival), 0))
	}
	return connect.NewResponse(last), nil
}

func (c *calls) leader(ctx context.Context, name string, l elect.Leader) *pb.LeaderResponse {
	if l.Token == 0 {
		return &pb.LeaderResponse{Revision: nobody}
	}
	out := &pb.LeaderResponse{Token: int64(l.Token), Revision: l.ModRevision}
	if keys.OfLock(l.Value) {
		out.Owner = c.holder(ctx, service.Want{Names: []string{name}, Modes: []service.Mode{service.Exclusive}})
	} else {
		out.Value = l.Value
	}
	return out
}

// holder is the owner of the first key that blocks a want, for people to read, or "" if that is not
// known.
func (c *calls) holder(ctx context.Context, w service.Want) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	only := inspect.KindLock
	if w.Limit > 0 {
		only = inspect.KindSemaphore
	}
	for i, name := range w.Names {
		queue, err := inspect.QueueOf(ctx, c.s.Client, inspect.Scope{Name: name, Only: only})
		if err != nil {
			return ""
		}
		for _, q := range queue {
			if w.Modes[i] != service.Shared || q.Mode != inspect.ModeShared {
				return q.Owner
			}
		}
	}
	return ""
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

func listed(l service.Lock) *pb.Lock {
	out := &pb.Lock{RequestId: l.Ref.Request, State: pb.State_LOST, Names: l.Names, Token: l.Token, Keys: l.Keys}
	if l.State == registry.Held {
		out.State, out.ValidForMs, out.Slot = pb.State_HELD, l.Valid.Milliseconds(), int32(l.Slot)
		out.Wanted = l.Wanted
		return out
	}
	if out.Why = why(l.Why); out.Why == pb.Why_WHY_UNSPECIFIED {
		out.Why = pb.Why_NOT_HELD
	}
	return out
}

func why(err error) pb.Why { return pb.Why(pb.Why_value[string(service.WhyOf(err))]) }
