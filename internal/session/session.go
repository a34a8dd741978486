package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// Host is the environment of sessions: the parts of one client.
type Host struct {
	Cluster   *cluster.Cluster
	Batch     *batch.Sender // sends what is put into queues and deleted from them
	Watches   *watcher.Hub
	Reader    *Reader // of all of the client's sessions
	Cleanup   *cleanup.Group
	Deferral  *Deferral     // of all of the client's sessions; may be nil
	Layouts   *Layouts      // of all of the client's sessions; nil if layouts are not compared
	Namespace string        // the prefix of the session key
	Floor     fencing.Token // the session returns only tokens above it
}

// A Session is a lease that is kept alive, and the dependents and keys on it. It is safe for
// concurrent use.
//
// It is composed of a validity, a book of its entries in queues, a roster of its dependents,
// removals, and the watch of its key, and adds little to them.
//
// Invariants: validity decides while ended is nil; ended is set once, under mu, and never
// cleared; each dependent on the roster learns of the end once, after ended was set.
type Session struct {
	host  Host
	id    int64
	owner string     // names the holder, for people to read
	label keys.Label // for the values of its keys that name their owner
	own   ownKey

	validity validity
	ended    atomic.Pointer[error] // why it has ended

	ctx     context.Context // cancelled with the cause
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed after ended is set and the dependents are notified
	stopped chan struct{} // closed when the session's goroutines have returned
	waking  waking        // the renewer
	sooner  chan struct{} // makes endInTime set its timer again

	events *notify.Source // set before a caller has the session; nil if there is no observer

	mu       sync.Mutex
	book     book
	removals removals
	roster   roster
	keyWatch keyWatch
	maxOps   int // how many operations a transaction may have besides the one on the session key

	warned atomic.Bool // that it has many keys

	followers []*Session // that renew with this one; guarded by mu

	revocation revocation
}

// An ownKey is the session key, as the session wrote it.
type ownKey struct {
	key         string
	create, mod int64       // its revisions
	same        *pb.Compare // compares that the key has mod
}

// Waking makes the renewer check its timers again.
type waking struct {
	woken  chan struct{}
	urgent atomic.Bool // a renewal has to begin at once
	led    atomic.Bool // one of the session that this one renews with has begun
}

// ID is the lease ID.
func (s *Session) ID() int64 { return s.id }

// TTL is the TTL in the server's last answer, less what the lock-delay adds to it.
func (s *Session) TTL() time.Duration { return s.validity.window().granted }

// lifetime is how long the lease lasts at the server without a renewal.
func (s *Session) lifetime() time.Duration { return s.TTL() + s.validity.reserve() }

// LockDelay is how long keys have to stay after a hold that ended without its Release (rule LD2).
func (s *Session) LockDelay() time.Duration { return s.validity.delay }

// Mutex guards the session, and the acquisitions that it has. It is held for moments: while it is, nobody
// sends, waits, cancels a context, or calls a function of somebody else (rule T6).
func (s *Session) Mutex() *sync.Mutex { return &s.mu }

// Host is the session's client.
func (s *Session) Host() Host { return s.host }

// Key is the session key, and the modification revision at which this session wrote it. Every enqueue
// compares that revision, so the server refuses a session that was taken over at once (rule N6).
func (s *Session) Key() (key string, mod int64) { return s.own.key, s.own.mod }

// Same compares that the session key is as this session wrote it. It is made once, because every
// enqueue sends it (docs/decisions/allocations.md), and must not be modified.
func (s *Session) Same() *pb.Compare { return s.own.same }

// ReadKey reads the session key, without its value.
func (s *Session) ReadKey() *pb.RequestOp { return txn.Stat(s.own.key) }

// Write sends a write to queues, alone or together with others. Once the session has ended, it does not
// send a write that is still waiting to be sent.
func (s *Session) Write(ctx context.Context, w batch.Write) (*pb.TxnResponse, error) {
	w.Ended = s.done
	return s.host.Batch.Txn(ctx, w)
}

// Go runs f in the background, with a context that ends with the session, so that closing the client
// does not wait for what nobody needs any more. It returns false, and does not run f, if the client is
// closed. what names f for the client's Close.
func (s *Session) Go(what string, f func(ctx context.Context)) bool {
	return s.host.Cleanup.Go(what, func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		f(ctx)
	})
}

// RenewNow begins a renewal at once, or when the one under way has ended. Calls in a burst, as
// when a lease ends together with a thousand keys, share it.
func (s *Session) RenewNow() {
	s.waking.urgent.Store(true)
	s.wake()
}

// wake makes the renewer check its timers again.
func (s *Session) wake() {
	select {
	case s.waking.woken <- struct{}{}:
	default:
	}
}
