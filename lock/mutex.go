package lock

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/observe"
)

// Options say how a name is locked. The zero value is the default.
type Options struct {
	// EtcdLayout uses the name verbatim as the key prefix, so that pawl excludes, and is
	// excluded by, clientv3's concurrency.Mutex and etcdctl lock on the same name. Names then
	// collide as they do there: a holder of "a/b" blocks "a". Shared acquisitions of "a" do not
	// see the holders and waiters of a name "a/+b", because keys that begin with "+" are those
	// of shared acquisitions.
	EtcdLayout bool
	// MaxHold bounds how long the lock may be held. A hold that lasts longer is lost, with
	// ErrMaxHold, and its key is deleted in the background, even while the function that uses the
	// lock still runs. lease.Options.LockDelay keeps the key for longer. 0 means no bound. The time
	// counts from the moment when Acquire, or Resume, succeeded, on a clock that runs while the
	// machine is suspended. If the session ends first, that is the cause.
	MaxHold time.Duration
	// Stall ends the hold when no Progress was reported for that long: it is then lost, with ErrStalled,
	// as one that has lasted for MaxHold is, even while the function that uses the lock still runs. 0
	// means no bound; otherwise it is at least 1 s. If several bounds end the hold, the earliest is the cause.
	//
	// It is for work that can hang while its process lives, and its session is renewed. Call
	// Held.Progress from the work itself, each time something is done: a page fetched, a batch committed. A
	// Progress from a timer, or from another goroutine than the work's, or from a callback that a retry
	// calls too, says only that the timer runs.
	//
	// The time counts from the moment when Acquire, or Resume, succeeded, and again from each Progress, on
	// a clock that runs while the machine is suspended and the process is stopped. So choose at least
	// the session's TTL, and three times the longest step, loading included.
	//
	// A lost hold does not end the work that hangs. Storage refuses its late writes by the token, and
	// Do waits for it as for any function; the client's logger gets a warning that names it. A process
	// whose work hangs should be ended.
	Stall time.Duration
	// AtLeast keeps the lock taken until it was held for that long, for a short job on many
	// machines whose clocks differ. An earlier Release returns at once, without a request to the
	// cluster, and Err then matches ErrReleased. The key is deleted in the background when the time
	// has passed. The key is kept no longer than the session lasts, so closing the session or the
	// client ends that earlier. If the process ends without closing either, the key stays until its
	// lease expires. A lease.Handle carries until when the key is kept, whether the lock was
	// released or is held. The process that takes the session over keeps it for as long, by the
	// machines' wall clocks. 0 means none. The time counts as that of MaxHold does. The end of
	// MaxHold does not delete the key before AtLeast has passed either.
	//
	// A key that is only kept is in the queue like any other: TryAcquire says how long it is kept if
	// it is of the same session, and a listing shows it as held. Shared locks and permits that are acquired and
	// released again and again leave a key each, all on one lease, until their time has passed.
	AtLeast time.Duration
	// RecordFirst makes Once write its record before it calls the function instead of
	// afterwards: at most once instead of at least once.
	RecordFirst bool
	// Owner is written into the lock's key, for people to read. It is meant for a process that
	// holds locks on behalf of others. "" means the session's owner, lease.Options.Owner. It has at
	// most 1 KiB.
	Owner string
}

// A Mutex is a name and a source of sessions. It never changes state: each acquisition is a
// separate Held, and any number of goroutines may use one Mutex. It must not be copied.
//
// It has two modes, like std::shared_mutex. Acquire, TryAcquire and Do hold the lock
// exclusively; AcquireShared, TryAcquireShared and DoShared hold it together with other shared
// holders. Both modes wait in one queue, so that neither can starve the other.
type Mutex struct{ target }

// New returns a Mutex; it does no I/O. With a *pawl.Client, each call uses the client's current
// session, so that the Mutex is usable again after a session was lost; with a *pawl.Session, every
// call uses that one. The first call reports invalid arguments: nil sessions, an empty name or one
// of more than 1 KiB, a negative MaxHold or AtLeast, a Stall below 1 s, an Owner of more than 1 KiB, an EtcdLayout
// name that would contain the keys of sessions.
func New(s pawl.Sessions, name string, opts Options) *Mutex {
	return &Mutex{target{sessions: s, opts: opts, wants: []queue.Want{{Name: name, Mode: observe.Exclusive}}}}
}

// all returns m's target, or nil for a nil Mutex.
func (m *Mutex) all() *target {
	if m == nil {
		return nil
	}
	return &m.target
}

// shared returns m's target in shared mode.
func (m *Mutex) shared() *target {
	if m == nil {
		return nil
	}
	return &target{sessions: m.sessions, opts: m.opts, wants: []queue.Want{{Name: m.Name(), Mode: observe.Shared}}}
}

// Name returns the lock's name, as it was given.
func (m *Mutex) Name() string { return m.all().name() }

// Acquire waits until the lock is held. It returns an error when ctx ends, even in the instant of
// success; when the session has ended, with the session's cause and no other; and when its key is
// deleted or overwritten while it waits. If ctx never ends it waits as long as the session lasts. A
// client that has no valid session gets one first, as Client.Session does; if that fails, so does
// Acquire.
func (m *Mutex) Acquire(ctx context.Context) (*Held, error) {
	return m.all().acquire(ctx, "acquire", false)
}

// TryAcquire is Acquire without waiting: if another holds the lock or waits for it, it fails
// with ErrBusy at once and writes nothing.
func (m *Mutex) TryAcquire(ctx context.Context) (*Held, error) {
	return m.all().acquire(ctx, "try to acquire", true)
}

// AcquireShared is Acquire in shared mode: the lock is held together with others that hold it
// in this mode, and never while anyone holds it with Acquire. It waits for every exclusive
// acquisition that was enqueued before it, held or waiting, and for no shared one. It fails if
// the Mutex has EtcdLayout.
//
// Its token excludes late writers only where the storage keeps two registers: see package
// fencing.
func (m *Mutex) AcquireShared(ctx context.Context) (*Held, error) {
	return m.shared().acquire(ctx, "acquire shared", false)
}

// TryAcquireShared is AcquireShared without waiting: if an exclusive acquisition holds the lock
// or waits for it, it fails with ErrBusy at once and writes nothing.
func (m *Mutex) TryAcquireShared(ctx context.Context) (*Held, error) {
	return m.shared().acquire(ctx, "try to acquire shared", true)
}

// Do acquires the lock, runs fn and releases it: see Held.Do. fn is not called
// unless the lock is held.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *Held) error) error {
	return m.all().do(ctx, "do", m.Acquire, fn)
}

// DoShared is Do in shared mode: see AcquireShared. fn's context carries the shared
// token: fencing.FromSharedContext finds it, and fencing.FromContext does not.
func (m *Mutex) DoShared(ctx context.Context, fn func(ctx context.Context, h *Held) error) error {
	return m.shared().do(ctx, "do shared", m.AcquireShared, fn)
}

// Resume returns the Held of a key that this session's predecessor held, if the session was made
// with lease.Options.Resume. key and t are the predecessor's Held.Key and Held.Token. The key shows
// whether the lock is held exclusively or shared. Resume queries the cluster, in one transaction.
// The error matches ErrLost if the key no longer exists. A key that belongs to a semaphore, an
// election, or a Multi is refused and stays as it is. The token stays the same.
func (m *Mutex) Resume(ctx context.Context, key string, t fencing.Token) (*Held, error) {
	return m.all().resume(ctx, []string{key}, t)
}
