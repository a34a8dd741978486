package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// Host is what sessions live on: the parts of one client.
type Host struct {
	Cluster   *cluster.Cluster
	Together  *together.Sender // of what goes into queues and leaves them
	Watches   *watcher.Hub
	Cleanup   *cleanup.Group
	Renewals  *Renewals     // of all of the client's sessions
	Deferral  *Deferral     // of all of the client's sessions; nil: there is none
	Namespace string        // put before the session key
	Floor     fencing.Token // no token at or below it is handed out
}

// A Session is a lease that is kept alive, and everything that hangs on it. Its
// methods may be called by several goroutines at once.
//
// It composes what it is made of, and has little of its own: a validity, a ledger
// of its entries in queues, a roster of the acquisitions that hang on it, removals, and
// the watch of its key.
//
// Invariants: validity decides while over is nil; over is set once, under mu, and
// never cleared; each acquisition on the roster learns of the end once, after over was
// set.
type Session struct {
	host        Host
	id          int64
	owner       string
	key         string        // the session key
	create, mod int64         // its revisions, as this session wrote it
	same        *pb.Compare   // the key has mod
	ownRead     *pb.RequestOp // reads the key, without its value
	label       keys.Label    // the beginning of every key's value

	validity validity
	over     atomic.Pointer[ending]

	ctx    context.Context // cancelled with the cause
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after over is set and the acquisitions are notified
	looped chan struct{} // closed when the renewal loop has returned
	poked  chan struct{} // wakes the loop

	events *notify.Source // set before anybody has the session; nil: nobody observes

	mu       sync.Mutex
	ledger   ledger
	removals removals
	probes   probes
	roster   roster
	keyWatch keyWatch
	maxOps   int  // how many operations one transaction may have beside that on the session key
	taking   bool // it is being taken over: whatever ends it leaves the lease

	deferral   Deferral
	promise    promise
	revocation revocation
}

// ending is why a session is over.
type ending struct{ err error }

// ID is the lease ID.
func (s *Session) ID() int64 { return s.id }

// TTL is the time to live that the server granted in its last answer.
func (s *Session) TTL() time.Duration { return s.validity.window().granted }

// Owner is who holds the session, for people.
func (s *Session) Owner() string { return s.owner }

// Host is the client that the session lives on.
func (s *Session) Host() Host { return s.host }

// Key is the session's own key and the modification revision under which this
// session wrote it: every enqueue compares it, so that a session that was taken
// over is refused at once (rule N6).
func (s *Session) Key() (key string, mod int64) { return s.key, s.mod }

// Same are parts of a transaction: the comparison of the session key with what
// this session wrote, and a read of it without its value. They are made once,
// for every lock sends them, and are not to be changed.
func (s *Session) Same() (is *pb.Compare, read *pb.RequestOp) { return s.same, s.ownRead }

// Write sends a write of the session's into queues: by itself, or together with others. One that
// has not left when the session is over does not leave.
func (s *Session) Write(ctx context.Context, w together.Write) (*pb.TxnResponse, error) {
	w.Lease, w.Over = s.id, s.done
	return s.host.Together.Txn(ctx, w)
}

// Err returns nil while the session is valid, and then forever the reason why
// it is not: an error that matches one of ErrExpired, ErrRevoked, ErrClosed or
// the cluster's end. It compares the clock with the deadline at the call; it
// does no I/O and does not block.
func (s *Session) Err() error {
	if e := s.over.Load(); e != nil {
		return e.err
	}
	if err := s.host.Cluster.Err(); err != nil {
		return s.end(err, leave)
	}
	if s.validity.window().over(clock.Now()) == nil {
		return nil
	}
	return s.expire()
}

// expire ends the session if the window in force is over.
func (s *Session) expire() error {
	s.mu.Lock()
	err := s.validity.over(clock.Now())
	s.mu.Unlock()
	if err == nil {
		return nil // extended in the meantime, before its end
	}
	return s.end(err, remove)
}

// Deadline is until when the session is valid unless it is renewed, for
// time.Now and computed at the call; the zero Time once it is over. A kept
// Deadline is wrong after a suspend.
func (s *Session) Deadline() time.Time {
	if s.Err() != nil {
		return time.Time{}
	}
	return s.validity.window().deadline().Time(clock.Now())
}

// Done is closed when the session is over. It only notifies: Err is what
// decides.
func (s *Session) Done() <-chan struct{} { return s.done }

// Context is cancelled, with the cause that Err reports, when the session is
// over.
func (s *Session) Context() context.Context {
	if err := s.Err(); err != nil { // a deadline that has passed is seen now
		s.cancel(err) // end does so too, perhaps a moment later
	}
	return s.ctx
}

// aftermath is what is done at the server when a session ends.
type aftermath int

const (
	remove   aftermath = iota // revoke the lease
	handOver                  // nothing: it is for another process
	leave                     // nothing, and Close says so: it may be another's, or is out of reach
)

// end ends the session with err unless it is over, and returns the cause that
// stands. Marked first, then notified, then removed (rule H1).
func (s *Session) end(err error, rest aftermath) error {
	s.mu.Lock()
	if e := s.over.Load(); e != nil {
		s.mu.Unlock()
		return e.err
	}
	s.over.Store(&ending{err})
	if rest == remove && s.taking {
		rest = leave
	}
	acquisitions, w := s.roster.close(), s.keyWatch.end()
	s.mu.Unlock()

	for _, c := range acquisitions {
		c.End(err)
	}
	s.cancel(err)
	close(s.done)
	if w != nil {
		w.Cancel()
	}
	s.notifyOver(err)
	switch rest {
	case remove:
		s.revoke()
	case handOver:
		s.revocation.decide(nil)
	case leave:
		s.revocation.decide(leftToExpire(s.id, err))
	}
	return err
}

// extend moves the deadline to that of a confirmed renewal which was sent at
// sent and answered with ttl. What is over is not extended (rule T4).
func (s *Session) extend(sent clock.Instant, ttl time.Duration) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.over.Load(); e != nil {
		return e.err
	}
	if !s.validity.extend(sent, ttl, clock.Now()) {
		return lease.ErrExpired // the loop's next call of Err ends it
	}
	return nil
}

// Gone ends the session because the server said that its lease, or its key, is gone.
func (s *Session) Gone(detail string) error {
	return s.end(because(lease.ErrRevoked, "%s", detail), remove)
}

// displaced ends the session because its key was rewritten: the lease may be
// another process's by now, so it is left alone.
func (s *Session) displaced(mod int64) error {
	return s.end(because(lease.ErrRevoked, "session key %q was rewritten at revision %d: taken over, or overwritten", s.key, mod), leave)
}

// wake makes the loop check its timers again.
func (s *Session) wake() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}
