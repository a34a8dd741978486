package lease

import (
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// An attempt is one whose key may be there, or may yet be.
type attempt struct {
	key  string
	held bool // not to be undone by whoever takes the session over
}

// Begin opens attempt n of this session on a line whose keys begin with prefix:
// its key is <prefix><lease in hex>-<n> and never used again (rule A1). It stays
// open until Settle, and is part of a Handle meanwhile unless it is held. The
// error says why the session is over.
func (s *Session) Begin(prefix string) (n int64, key string, err error) {
	if err := s.Err(); err != nil {
		return 0, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.over.Load(); e != nil {
		return 0, "", e.err
	}
	n = s.next
	s.next++
	key = keys.QueueKey{Lease: s.id, N: n}.In(prefix)
	s.attempts[n] = attempt{key: key}
	s.lines[prefix] = onLine{s.lines[prefix].keys + 1, n}
	return n, key, nil
}

// CancelKey is the cancel key of attempt n: while it is there, no late copy of
// the attempt's enqueue can be applied (rule A5).
func (s *Session) CancelKey(n int64) []byte { return keys.CancelKey(s.key, n) }

// Settle tells that attempt n came to a known end: its key is not there, and
// will not be.
func (s *Session) Settle(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.attempts[n]; ok {
		delete(s.attempts, n)
		s.leaveLine(a.key)
	}
}

// Reopen tells that the key of attempt n, which was held, has to be removed after
// all. Where that was settled meanwhile it stays so: what is counted on a line is
// counted once.
func (s *Session) Reopen(n int64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.attempts[n]; ok || n < s.inherited {
		s.attempts[n] = attempt{key: key}
	}
}

// Adopt tells that the key of attempt n is resumed, and reports whether it may
// be: it was left by the session's predecessor, and not resumed before.
func (s *Session) Adopt(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= s.inherited || s.adopted[n] {
		return false
	}
	if s.adopted == nil {
		s.adopted = make(map[int64]bool)
	}
	s.adopted[n] = true
	return true
}

// Detach ends the session here, with ErrClosed and all that hangs on it, before
// it returns, and leaves the lease and its keys to the process that resumes the
// Handle. The zero Handle means that the session was over.
func (s *Session) Detach() Handle {
	if s.Err() != nil {
		return Handle{}
	}
	if !s.endFor(because(ErrClosed, "detached")) {
		return Handle{}
	}
	<-s.looped // so that nothing is renewed here any more
	s.mu.Lock()
	defer s.mu.Unlock()
	var unsettled []string
	for _, a := range s.attempts {
		if !a.held {
			unsettled = append(unsettled, a.key)
		}
	}
	slices.Sort(unsettled)
	return Handle{
		lease: s.id, cluster: s.host.Cluster.ID(), ttl: s.TTL(),
		key: s.key, create: s.create, mod: s.mod, next: s.next, unsettled: joinKeys(unsettled),
	}
}

// endFor ends the session with err, leaving the lease, and reports whether it
// was this call that did.
func (s *Session) endFor(err error) bool { return s.end(err, handOver) == err }

// resume takes a detached session over (rule N6): one transaction that rewrites
// the session key if it is as the Handle says, then the attempts that the
// predecessor left open are undone, then a confirmed renewal.
func resume(ctx context.Context, host Host, opts Options) (*Session, error) {
	h := opts.Resume
	if id := host.Cluster.ID(); h.cluster != id {
		return nil, fmt.Errorf("lease: resume: the handle is of cluster %x, the endpoints of %x", h.cluster, id)
	}
	if want := keys.SessionKey(host.Namespace, h.lease); h.key != want {
		return nil, fmt.Errorf("lease: resume: the handle's session key is %q, Config.Namespace makes it %q", h.key, want)
	}
	s := newSession(host, opts)
	s.adopt(h.lease, window{granted: h.ttl, margin: opts.Margin})
	s.create, s.next, s.inherited = h.create, h.next, h.next
	if err := s.takeKey(ctx, h); err != nil {
		return nil, fmt.Errorf("lease: resume: %w", explain(err, s.key))
	}
	if err := s.carryOn(ctx, h); err != nil {
		s.abandon()
		return nil, fmt.Errorf("lease: resume: %w", err)
	}
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("lease: resume: %w", err)
	}
	return s, nil
}

// carryOn puts a session whose key was taken in order.
func (s *Session) carryOn(ctx context.Context, h Handle) error {
	if err := s.settle(ctx, h); err != nil {
		return fmt.Errorf("attempts left open: %w", err)
	}
	return s.firstRenewal(ctx)
}

// takeKey rewrites the session key with a new nonce. It may be sent again: the
// comparison lets one copy through, and the nonce tells whose it was.
func (s *Session) takeKey(ctx context.Context, h Handle) error {
	value := s.keyValue()
	resp, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: "take over session", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(s.key, h.create), txn.ModIs(s.key, h.mod)},
		Success: []*pb.RequestOp{txn.Put(s.key, value, s.id), txn.Get(s.key)},
		Failure: []*pb.RequestOp{txn.Get(s.key)},
	})
	if cluster.IsLeaseNotFound(err) {
		return because(ErrRevoked, "lease %x", s.id)
	}
	if err != nil {
		return err
	}
	kv := txn.KV(resp, len(resp.Responses)-1)
	switch {
	case kv == nil:
		return because(ErrRevoked, "session key %q is not there", s.key)
	case string(kv.Value) != string(value):
		return fmt.Errorf("%w: session key %q is at revision %d, the handle knows %d", ErrTakenOver, s.key, kv.ModRevision, h.mod)
	}
	s.mod = kv.ModRevision
	return nil
}

// settle undoes the attempts that the predecessor left open, so that no late
// copy of one can be applied (rule A5).
func (s *Session) settle(ctx context.Context, h Handle) error {
	unsettled, err := splitKeys(h.unsettled)
	if err != nil {
		return err
	}
	for _, key := range unsettled {
		k, ok := keys.ParseQueueKey(key)
		if !ok || k.Lease != s.id {
			return fmt.Errorf("key %q is not of lease %x", key, s.id)
		}
		if err := s.Undo(ctx, k.N, key); err != nil {
			return err
		}
	}
	return nil
}

// Undo removes attempt n for good: whether its enqueue was applied, was not, or
// may be later. It can be repeated.
func (s *Session) Undo(ctx context.Context, n int64, key string) error {
	undo := &pb.TxnRequest{
		Compare: []*pb.Compare{txn.ModIs(s.key, s.mod)},
		Success: []*pb.RequestOp{txn.Put(s.CancelKey(n), nil, s.id), txn.Delete(key)},
		Failure: []*pb.RequestOp{txn.Look(s.key)},
	}
	req := cluster.Request{Op: "undo attempt", Repeat: cluster.Always}
	resp, err := s.host.Cluster.Txn(ctx, req, undo)
	switch {
	case cluster.IsLeaseNotFound(err):
		return s.Gone(fmt.Sprintf("lease %x was not found", s.id))
	case cluster.IsNoSpace(err): // the delete alone works; the rest when there is room
		_, _ = s.host.Cluster.Txn(ctx, req, &pb.TxnRequest{
			Compare: undo.Compare, Success: []*pb.RequestOp{txn.Delete(key)}, Failure: undo.Failure,
		})
		return err
	case err != nil:
		return err
	case !resp.Succeeded:
		return s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision)
	}
	return nil
}

// firstRenewal gives a session that was taken over its first window, on
// whichever member confirms it. It gives up when ctx ends, and when the lease,
// which nobody renews meanwhile, has had the time to end.
func (s *Session) firstRenewal(ctx context.Context) error {
	var last *cluster.Member
	began := clock.Now()
	for wait := newBackoff(minWait, maxWait); ; {
		last = s.host.Cluster.Pick(last)
		r := s.attempt(ctx, last)
		if e := s.over.Load(); e != nil {
			return e.err
		}
		if r.err == nil {
			w := window{sent: r.sent, granted: r.ttl, margin: s.margin}
			s.win.Store(&w)
			return w.over(clock.Now())
		}
		switch late := clock.Now().Sub(began) > s.TTL(); {
		case late, s.host.Cluster.Err() != nil:
			return r.err
		case ctx.Err() != nil, !wait.sleep(ctx):
			return fmt.Errorf("%w: %w", cluster.EndOf(ctx), r.err)
		}
	}
}
