package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
)

// Grant makes a session: a new lease with its session key, or, with Options.Resume, the lease of a
// detached one. ctx bounds only the call. After an error nothing is left that needs the caller to end
// it: a lease that may have been granted is revoked in the background.
func Grant(ctx context.Context, host Host, opts lease.Options) (*Session, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	opts = opts.WithDefaults()
	if opts.Resume != (lease.Handle{}) {
		return resume(ctx, host, opts)
	}
	s := newSession(host, opts)
	if err := s.grant(ctx, opts.TTL); err != nil {
		return nil, fmt.Errorf("lease: grant: %w", err)
	}
	if err := s.writeKey(ctx); err != nil {
		s.discard()
		return nil, fmt.Errorf("lease: session key: %w", explain(err, host.Namespace))
	}
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("lease: grant: %w", err)
	}
	return s, nil
}

// newSession makes a session that has no lease yet.
func newSession(host Host, opts lease.Options) *Session {
	s := &Session{
		host:     host,
		owner:    opts.Owner,
		validity: validity{margin: opts.Margin, delay: opts.LockDelay},
		book:     newBook(),
		removals: newRemovals(),
		done:     make(chan struct{}),
		stopped:  make(chan struct{}),
		waking:   waking{woken: make(chan struct{}, 1)},
		sooner:   make(chan struct{}, 1),
		maxOps:   maxOps,
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.label = keys.NewLabel(identity(s.owner))
	s.roster = newRoster(s.wake)
	s.revocation.done = make(chan struct{})
	return s
}

// grants is how many leases are requested at most, one after the other, if answers are lost.
const grants = 3

// grant requests a lease with an ID that we choose, so that it can be revoked if the answer is
// lost. The clock is read before each request is sent (T2).
func (s *Session) grant(ctx context.Context, ttl time.Duration) error {
	for try := 1; ; try++ {
		id := randomID()
		sent, granted, err := s.grantOnce(ctx, id, ttl)
		switch {
		case err == nil:
			s.adopt(id, sent, granted)
			return nil
		case cluster.IsLeaseExists(err) && try < grants: // somebody else's lease: choose another ID
			continue
		case cluster.OutcomeOf(err) != cluster.NotApplied:
			revokeInBackground(s.host, id, ttl+s.validity.reserve())
			if try < grants && !cluster.IsNoSpace(err) && ctx.Err() == nil && s.host.Cluster.Err() == nil {
				continue
			}
		}
		return err
	}
}

// grantOnce requests lease id, for ttl and what the lock-delay adds to it. The TTL that it returns is
// without that addition.
func (s *Session) grantOnce(ctx context.Context, id int64, ttl time.Duration) (sent clock.Instant, granted time.Duration, err error) {
	var resp *pb.LeaseGrantResponse
	err = s.host.Cluster.Do(ctx, cluster.Request{Op: "lease grant"}, func(ctx context.Context, m *cluster.Member) (_ *pb.ResponseHeader, err error) {
		sent = clock.Now()
		resp, err = etcdapi.LeaseGrant(ctx, m, &pb.LeaseGrantRequest{ID: id, TTL: int64((ttl + s.validity.reserve()) / time.Second)})
		return resp.GetHeader(), err
	})
	if err == nil && resp.ID != id {
		err = fmt.Errorf("lease %x was asked for, the answer grants %x", id, resp.ID)
	}
	return sent, time.Duration(resp.GetTTL())*time.Second - s.validity.reserve(), err
}

// adopt makes id the session's lease.
func (s *Session) adopt(id int64, sent clock.Instant, granted time.Duration) {
	s.id = id
	s.own.key = keys.SessionKey(s.host.Namespace, id)
	s.validity.begin(sent, granted)
}

// writeKey puts the key of a new session.
func (s *Session) writeKey(ctx context.Context) error {
	_, ours, err := s.putKey(ctx, "put session key", rand.Text(), txn.CreateIs(s.own.key, 0))
	if err == nil && !ours {
		err = fmt.Errorf("key %q is another's", s.own.key)
	}
	return err
}

// putKey puts the session key, with the nonce, if compares hold. They no longer hold once a copy was
// applied, so the request may be sent again, and the nonce shows whose copy it was. kv is the key as it
// is then, or nil if there is none. If it is ours, putKey records its revisions.
func (s *Session) putKey(ctx context.Context, op, nonce string, compares ...*pb.Compare) (kv *mvccpb.KeyValue, ours bool, err error) {
	resp, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: op, Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: compares,
		Success: []*pb.RequestOp{txn.Put(s.own.key, keys.SessionValue(identity(s.owner), nonce), s.id), txn.Get(s.own.key)},
		Failure: []*pb.RequestOp{txn.Get(s.own.key)},
	})
	if err != nil {
		return nil, false, err
	}
	kv = txn.KV(resp, len(resp.Responses)-1)
	if kv == nil || keys.SessionNonce(kv.Value) != nonce {
		return kv, false, nil
	}
	s.own.create, s.own.mod = kv.CreateRevision, kv.ModRevision
	s.own.same = txn.ModIs(s.own.key, s.own.mod)
	return kv, true, nil
}

// identity describes this process as the holder named in the value of a key that is put now.
func identity(owner string) keys.Identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return keys.Identity{Owner: owner, Host: host, PID: os.Getpid(), Since: time.Now().UTC()}
}

// start begins the watch of the session key and the renewal loop. If the session has already ended, its
// lease is revoked, unless it was being taken over.
func (s *Session) start() error {
	if err := s.Err(); err != nil {
		close(s.stopped)
		return err
	}
	s.notifyGranted()
	s.watchKey(s.own.mod + 1)
	go s.run() // ends with the session; Close waits for it
	return nil
}

// discard ends a session that no caller has received.
func (s *Session) discard() {
	close(s.stopped)
	s.end(fmt.Errorf("%w: never begun", lease.ErrClosed), remove)
}

// randomID is a lease ID of 63 random bits, never 0.
func randomID() int64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails
		if id := int64(binary.BigEndian.Uint64(b[:]) >> 1); id != 0 {
			return id
		}
	}
}

// LabelOf is the value of the keys that are put now for an acquisition of one or more names, in either
// layout. An empty owner means the session's.
func (s *Session) LabelOf(owner string, etcdLayout bool, name string, more []string) []byte {
	label, now := s.label, time.Now()
	if owner != "" {
		label = keys.NewLabel(identity(owner))
	}
	var value []byte
	switch {
	case owner == "" && len(more) == 0:
		return keys.Plain(now, etcdLayout)
	case len(more) > 0:
		value = label.Multi(now, append([]string{name}, more...))
	default:
		value = label.Lock(now)
	}
	if etcdLayout {
		value = keys.InEtcdLayout(value)
	}
	return value
}

// OwnerValue is the value of an owner key that is put now. An empty owner means the session's.
func (s *Session) OwnerValue(owner string) []byte { return identity(cmp.Or(owner, s.owner)).Value() }

// explain adds to a permission error for a session key which permissions a role needs.
func explain(err error, namespace string) error {
	if !cluster.IsPermissionDenied(err) {
		return err
	}
	return fmt.Errorf("%w (the role needs readwrite on keys from %q, and on those of each name: from %q, or, for a name with a slash such as a/b, from %q)",
		err, keys.SessionRoot(namespace), namespace+"NAME/", namespace+"/a%2Fb/")
}
