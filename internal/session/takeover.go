package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/gate"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// resume takes a detached session over (rule N6). It removes what the predecessor left open only after
// the first renewal, because removing many entries must not cost validity. A takeover that fails leaves
// the lease, and all that is held on it, to expire.
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
	opts.LockDelay = h.LockDelay // the lease was granted with it
	s := newSession(host, opts)
	s.adopt(h.Lease, clock.Instant{}, h.TTL)
	s.revocation.taking, s.own.create = true, h.Create
	if err := s.book.inherit(h.Lease, h.Next, h.ToRemove, h.Lost, h.Held); err != nil {
		return nil, fmt.Errorf("lease: resume: %w", err)
	}
	for now, wall, i := clock.Now(), time.Now(), 0; i < len(h.Kept); i++ {
		until := now.Add(h.Stays(h.Kept[i], wall))
		if e := s.book.entries[h.Kept[i].N]; e != nil {
			e.keep().Until = until
		} else {
			s.book.owed[h.Kept[i].N] = until
		}
	}
	if err := s.takeOver(ctx, opts.Resume, h); err != nil {
		return nil, fmt.Errorf("lease: resume: %w", explain(err, host.Namespace))
	}
	s.tidy(ctx)
	return s, nil
}

// Claim chooses the nonce with which h is taken over, and returns h with it. All uses of the returned
// Handle, in any process, continue one takeover: if one of them has rewritten the session key, the next
// recognizes that. So only one process at a time may have it. The caller must store it before using it,
// and discard it before the session begins anything new.
func Claim(h lease.Handle) lease.Handle {
	state, err := stateOf(h)
	if err != nil || state.Claim != "" {
		return h // not a session's, or claimed before
	}
	state.Claim = rand.Text()
	return handleOf(state)
}

// takeovers are the takeovers, by Handle, that this process has begun and not finished. The next try
// with a Handle writes the same nonce, and so recognizes the session key if an earlier one has
// rewritten it. One that is not tried again stays here, because it is small, and a process takes few
// sessions over.
var takeovers sync.Map

// A takeover is the use of one Handle.
type takeover struct {
	trying gate.Gate // one call at a time tries it
	nonce  string    // of the new value of the session key; set by the caller that tries
}

// beginTakeover returns the takeover of h, once no other caller tries it; the caller has to call end.
func beginTakeover(ctx context.Context, h lease.Handle) (*takeover, error) {
	for {
		begun, _ := takeovers.LoadOrStore(h, &takeover{trying: gate.New(1)})
		t := begun.(*takeover)
		if !t.trying.Enter(ctx) {
			return nil, cluster.EndOf(ctx)
		}
		if now, _ := takeovers.Load(h); now == begun {
			return t, nil
		}
		t.trying.Leave() // finished meanwhile; its nonce would make another's session ours
	}
}

// end ends a try of t, the takeover of h. finished says that no further try will follow.
func (t *takeover) end(h lease.Handle, finished bool) {
	if finished {
		takeovers.Delete(h)
	}
	t.trying.Leave()
}

// takeOver makes s, which has the Handle's lease, the session described by h.
func (s *Session) takeOver(ctx context.Context, of lease.Handle, h detached.State) (err error) {
	t, err := beginTakeover(ctx, of)
	if err != nil {
		return err
	}
	defer func() {
		t.end(of, err == nil || errors.Is(err, lease.ErrTakenOver) || errors.Is(err, lease.ErrRevoked))
	}()
	if t.nonce == "" {
		t.nonce = cmp.Or(h.Claim, rand.Text())
	}
	if err := s.takeKey(ctx, h, t.nonce); err != nil {
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
	s.revocation.taking = false
	if s.validity.delay > 0 { // for what the predecessor held, and nobody resumes (rule LD3)
		now := clock.Now()
		s.book.takenOver = now.Add(s.validity.delay)
		for _, n := range s.book.losses() {
			s.book.entries[n].keep().Ended = now
		}
	}
	s.mu.Unlock()
	return nil
}

// tidyWait is how long a takeover waits for the removal of what its predecessor left open.
const tidyWait = 2 * time.Second

// tidy has what the predecessor left open removed in the background, and waits for that until ctx ends
// or tidyWait has passed. It does not wait for keys that have to stay for now.
func (s *Session) tidy(ctx context.Context) {
	s.mu.Lock()
	for _, e := range s.book.entries {
		s.removeKept(e)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tidyWait)
	defer cancel()
	s.removals.work.Await(ctx)
}

// takeKey rewrites the session key with the nonce if it is as h says.
func (s *Session) takeKey(ctx context.Context, h detached.State, nonce string) error {
	kv, ours, err := s.putKey(ctx, "take over session", nonce, txn.CreateIs(s.own.key, h.Create), txn.ModIs(s.own.key, h.Mod))
	switch {
	case cluster.IsLeaseNotFound(err):
		return fmt.Errorf("%w: lease %x", lease.ErrRevoked, s.id)
	case err != nil || ours:
		return err
	case kv == nil:
		return fmt.Errorf("%w: session key %q is not there", lease.ErrRevoked, s.own.key)
	}
	return fmt.Errorf("%w: session key %q is at revision %d, the handle knows %d", lease.ErrTakenOver, s.own.key, kv.ModRevision, h.Mod)
}

// Rehearse sends the transaction with which a successor would take the session over, with a comparison
// that never holds, so that it changes nothing. Its error says why no successor can take the session
// over now. If the error matches cluster.IsNoSpace, the server is out of space.
func (s *Session) Rehearse(ctx context.Context) error {
	_, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: "rehearse a takeover", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(s.own.key, -1)},
		Success: []*pb.RequestOp{txn.Put(s.own.key, keys.SessionValue(identity(s.owner), rand.Text()), s.id)},
	})
	return err
}

// firstRenewal gives a session that was taken over its first window, on whichever member
// confirms it. It gives up when ctx ends, or when the lease, which nobody renews meanwhile,
// must have expired.
func (s *Session) firstRenewal(ctx context.Context) error {
	var last *cluster.Member
	began := clock.Now()
	for wait := backoff.Background(); ; {
		last = s.host.Cluster.Pick(last)
		r := s.renew(ctx, last)
		if e := s.ended.Load(); e != nil {
			return *e
		}
		if r.err == nil {
			return s.validity.begin(r.sent, r.ttl).expired(clock.Now())
		}
		switch late := clock.Now().Sub(began) > s.lifetime(); {
		case late, s.host.Cluster.Err() != nil:
			return plainEnd(ctx, r.err)
		case ctx.Err() != nil, !wait.Sleep(ctx):
			return fmt.Errorf("%w: %w", cluster.EndOf(ctx), r.err)
		}
	}
}

// plainEnd returns err, of a renewal for a caller with ctx. If the renewal's own time limit
// ended it, the error must not match the end of ctx.
func plainEnd(ctx context.Context, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !ended || cluster.EndOf(ctx) != nil {
		return err
	}
	return errors.New(err.Error())
}
