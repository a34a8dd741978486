package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/watcher"
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
// Invariants: validity decides while ended is nil; ended is set once, under mu, and
// never cleared; each acquisition on the roster learns of the end once, after ended was
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
	ended    atomic.Pointer[ending]

	ctx    context.Context // cancelled with the cause
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after ended is set and the acquisitions are notified
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
// has not left when the session has ended does not leave.
func (s *Session) Write(ctx context.Context, w together.Write) (*pb.TxnResponse, error) {
	w.Lease, w.Over = s.id, s.done
	return s.host.Together.Txn(ctx, w)
}

// wake makes the loop check its timers again.
func (s *Session) wake() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}
