package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// Begin opens entry n of this session, with a key at each of places, which are of
// different names. No key is ever used again (rule A1). The entry stays
// open until Settle, and is part of a Handle meanwhile unless it is held. The
// error says why the session is over.
func (s *Session) Begin(places ...keys.Place) (n int64, own []string, err error) {
	if err := s.Err(); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.over.Load(); e != nil {
		return 0, nil, e.err
	}
	n, own = s.ledger.begin(s.id, places...)
	return n, own, nil
}

// CancelKey is the cancel key of entry n: while it is there, no late copy of
// the entry's enqueue can be applied (rule A5).
func (s *Session) CancelKey(n int64) []byte { return keys.CancelKey(s.key, n) }

// Shown says that an answer showed the key of entry n: its enqueue was applied,
// and no copy of it can be any more.
func (s *Session) Shown(n int64) { s.move(n, shown, nil) }

// Settle says that entry n came to a known end: its key is not there, and will
// not be.
func (s *Session) Settle(n int64) { s.move(n, absent, nil) }

// Reopen says that the keys of entry n, which was held, have to be removed after
// all. Where that was settled meanwhile it stays so.
func (s *Session) Reopen(n int64) { s.move(n, unwanted, nil) }

// Forfeit says that the key of entry n, which was held, was held for too long. Leave has
// it removed, in a way that shows successors that it was not released.
func (s *Session) Forfeit(n int64) { s.move(n, overheld, nil) }

// Adopt says that own, the keys of entry n, are resumed, and reports whether they may
// be: they were left by the session's predecessor, and not resumed before.
func (s *Session) Adopt(n int64, own ...string) bool { return s.move(n, resumed, own) }

func (s *Session) move(n int64, ev evidence, own []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.move(n, ev, own)
}

// Alone reports whether entry n is the only one of the session's in the queue
// with this prefix that had, may have, or may yet have, a key there since n
// began. Others of its lease's keys under that prefix are gone for good then, for
// no name is used twice (rule A1). A session that was taken over does not know
// what its predecessor left, and never says so.
//
// Called before n's enqueue is sent and after it was answered, it shows that
// nothing of this session's stood before n: an entry that begins later is sent
// after that answer.
func (s *Session) Alone(n int64, prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.alone(n, prefix)
}

// Detach ends the session here, with ErrClosed and all that hangs on it, before
// it returns, and leaves the lease and its keys to the process that resumes the
// Handle. The zero Handle means that the session was over.
func (s *Session) Detach() lease.Handle {
	if s.Err() != nil {
		return lease.Handle{}
	}
	if !s.endFor(because(lease.ErrClosed, "detached")) {
		return lease.Handle{}
	}
	<-s.looped // so that nothing is renewed here any more
	return handleOf(s.state())
}

// state is what a successor has to know.
func (s *Session) state() detached.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return detached.State{
		Lease: s.id, Cluster: s.host.Cluster.ID(), TTL: s.TTL(),
		Key: s.key, Create: s.create, Mod: s.mod, Next: s.ledger.next, Unsettled: s.ledger.unsettled(),
	}
}

func handleOf(state detached.State) (h lease.Handle) {
	if err := h.UnmarshalText([]byte(state.Text())); err != nil {
		panic(err.Error()) // a session's state is one that Parse takes
	}
	return h
}

func stateOf(h lease.Handle) (detached.State, error) {
	text, err := h.MarshalText()
	if err != nil {
		return detached.State{}, err
	}
	return detached.Parse(string(text))
}

// endFor ends the session with err, leaving the lease, and reports whether it
// was this call that did.
func (s *Session) endFor(err error) bool { return s.end(err, handOver) == err }

// resume takes a detached session over (rule N6): one transaction that rewrites
// the session key if it is as the Handle says, then a confirmed renewal; what the
// predecessor left open is removed only then, in the background, for its number
// must not cost validity. A takeover that failed leaves the lease to expire, with
// what is held on it: the same process can try again with the same Handle.
func resume(ctx context.Context, host Host, opts lease.Options) (*Session, error) {
	h, err := stateOf(opts.Resume)
	if err != nil {
		return nil, fmt.Errorf("lease: resume: %w", err)
	}
	if id := host.Cluster.ID(); h.Cluster != id {
		return nil, fmt.Errorf("lease: resume: the handle is of cluster %x, the endpoints of %x", h.Cluster, id)
	}
	if want := keys.SessionKey(host.Namespace, h.Lease); h.Key != want {
		return nil, fmt.Errorf("lease: resume: the handle's session key is %q, Config.Namespace makes it %q", h.Key, want)
	}
	s := newSession(host, opts)
	s.adopt(h.Lease, clock.Instant{}, h.TTL)
	s.taking, s.create = true, h.Create
	if err := s.ledger.inherit(h.Lease, h.Next, h.Unsettled); err != nil {
		return nil, fmt.Errorf("lease: resume: %w", err)
	}
	if err := s.takeOver(ctx, opts.Resume, h); err != nil {
		return nil, fmt.Errorf("lease: resume: %w", explain(err, host.Namespace))
	}
	s.tidy(ctx)
	return s, nil
}

// takeOver makes s, which is of the Handle's lease, the session that h says.
func (s *Session) takeOver(ctx context.Context, of lease.Handle, h detached.State) (err error) {
	t, err := takeovers.begin(ctx, of, h.TTL)
	if err != nil {
		return err
	}
	defer func() {
		takeovers.end(of, t, err == nil || errors.Is(err, lease.ErrTakenOver) || errors.Is(err, lease.ErrRevoked))
	}()
	if t.value == nil {
		t.value = s.keyValue()
	}
	if err := s.takeKey(ctx, h, t.value); err != nil {
		return err
	}
	if err := s.firstRenewal(ctx); err != nil {
		s.discard()
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.taking = false
	s.mu.Unlock()
	return nil
}

// tidyWait is how long a takeover waits for what its predecessor left open to be
// removed.
const tidyWait = 2 * time.Second

// tidy has what the predecessor left open removed, and waits for that a little:
// until ctx ends, or tidyWait is over. It goes on in the background.
func (s *Session) tidy(ctx context.Context) {
	s.mu.Lock()
	var open []*removal
	for n := range s.ledger.entries {
		open = append(open, &removal{n: n})
	}
	s.mu.Unlock()
	if len(open) == 0 {
		return
	}
	idle := s.remove(open...)
	if idle == nil {
		return
	}
	late := time.NewTimer(tidyWait)
	defer late.Stop()
	select {
	case <-idle:
	case <-ctx.Done():
	case <-late.C:
	}
}

// takeKey rewrites the session key with a new nonce. It may be sent again: the
// comparison lets one copy through, and the nonce tells whose it was.
func (s *Session) takeKey(ctx context.Context, h detached.State, value []byte) error {
	resp, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: "take over session", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(s.key, h.Create), txn.ModIs(s.key, h.Mod)},
		Success: []*pb.RequestOp{txn.Put(s.key, value, s.id), txn.Get(s.key)},
		Failure: []*pb.RequestOp{txn.Get(s.key)},
	})
	if cluster.IsLeaseNotFound(err) {
		return because(lease.ErrRevoked, "lease %x", s.id)
	}
	if err != nil {
		return err
	}
	kv := txn.KV(resp, len(resp.Responses)-1)
	switch {
	case kv == nil:
		return because(lease.ErrRevoked, "session key %q is not there", s.key)
	case string(kv.Value) != string(value):
		return fmt.Errorf("%w: session key %q is at revision %d, the handle knows %d", lease.ErrTakenOver, s.key, kv.ModRevision, h.Mod)
	}
	s.wroteKey(kv)
	return nil
}

// Undo removes entry n for good: whether its enqueue was applied, was not, or
// may be later. It can be repeated.
func (s *Session) Undo(ctx context.Context, n int64) error {
	s.move(n, unwanted, nil)
	return s.removeEntries(ctx, []int64{n})
}

// firstRenewal gives a session that was taken over its first window, on
// whichever member confirms it. It gives up when ctx ends, and when the lease,
// which nobody renews meanwhile, has had the time to end.
func (s *Session) firstRenewal(ctx context.Context) error {
	var last *cluster.Member
	began := clock.Now()
	for wait := (backoff.Backoff{First: minWait, Most: maxWait}); ; {
		last = s.host.Cluster.Pick(last)
		r := s.renew(ctx, last)
		if e := s.over.Load(); e != nil {
			return e.err
		}
		if r.err == nil {
			return s.validity.begin(r.sent, r.ttl).over(clock.Now())
		}
		switch late := clock.Now().Sub(began) > s.TTL(); {
		case late, s.host.Cluster.Err() != nil:
			return plainEnd(ctx, r.err)
		case ctx.Err() != nil, !wait.Sleep(ctx):
			return fmt.Errorf("%w: %w", cluster.EndOf(ctx), r.err)
		}
	}
}

// plainEnd is err, of a renewal for a caller with ctx: the end of the renewal's
// own bound must not match as the end of ctx.
func plainEnd(ctx context.Context, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !ended || cluster.EndOf(ctx) != nil {
		return err
	}
	return errors.New(err.Error())
}
