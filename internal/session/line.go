package session

import (
	"context"
	"errors"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
)

// With a password etcd checks all keys of a lease at each put on it, and an enqueue behind many waiters
// reads all of them. So what an enqueue costs everybody grows with the keys of its session, and the
// enqueues of a client are admitted by that (docs/decisions/many-keys.md).

var errInLine = errors.New("it was not sent, because others of this client were under way without an answer")

// Enqueues waits until the client may send another enqueue, or what settles one, that puts so many keys
// on the session's lease. The place must be left when it was answered.
func (s *Session) Enqueues(ctx context.Context, op string, puts int) (at gate.Place, err error) {
	at, ok := s.host.Batch.Enqueues.Enter(ctx, s.done, (*enqueues)(s), puts)
	if !ok {
		return at, cluster.NotSent(ctx, op, errInLine)
	}
	s.warnOfMany()
	return at, nil
}

// enqueues are a session as the source of its enqueues.
type enqueues Session

func (s *enqueues) Load() int { return max((*Session)(s).entries(), batch.FewKeys) }

// manyKeys is how many entries of a session are too many with a password.
const manyKeys = 1_000

// warnOfMany logs, once for the session, that it has so many keys that etcd becomes slow for everybody.
func (s *Session) warnOfMany() {
	if s.warned.Load() || !s.host.Cluster.HasUser() {
		return
	}
	if n := s.entries(); n > manyKeys && s.warned.CompareAndSwap(false, true) {
		s.host.Cluster.Logger().Warn("many keys on one session: with a password, each costs etcd more than the one before; use several sessions",
			"lease", hex(s.id), "keys", n)
	}
}

// Releases is Enqueues for a release, which costs the same whatever the lease has.
func (s *Session) Releases(ctx context.Context, op string) (at gate.Place, err error) {
	at, ok := s.host.Batch.Releases.Enter(ctx, s.done, (*releases)(s), 1)
	if !ok {
		return at, cluster.NotSent(ctx, op, errInLine)
	}
	return at, nil
}

// releases are a session as the source of its releases.
type releases Session

func (*releases) Load() int { return batch.FewKeys }

// entries is how many entries of the session may have keys.
func (s *Session) entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.book.entries)
}
