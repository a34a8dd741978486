package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
)

func TestMain(m *testing.M) {
	session.Check = func(broken string) { // the session's mutex is held, so no test could end
		fmt.Fprintf(os.Stderr, "a broken invariant: %s\n%s", broken, debug.Stack())
		os.Exit(1)
	}
	leaks.VerifyTestMain(m)
}

// fixture is a cluster, and clients of it, in a bubble.
type fixture struct {
	*inmemory.Fixture
	f      *etcdfake.Cluster
	shared bool     // whether queue is in shared mode
	limit  int      // how many slots queue has, if it is a semaphore's; 0 otherwise
	set    []string // names that are acquired together with the queue's
	etcd   bool     // in etcd's layout
	others *others  // nil if the test's writes are sent alone
}

// queues returns the queue, and those of the other names. Every other one of these is shared.
func (w *fixture) queues() []Queue {
	all := []Queue{w.queue()}
	for i, name := range w.set {
		q, err := New("", name, w.etcd)
		require.NoError(w, err)
		q.Shared = i%2 == 0 && !w.etcd
		all = append(all, q)
	}
	return all
}

// take acquires the queue, and those of the other names.
func (w *fixture) take(ctx context.Context, s *session.Session, r Request) (*Acquisition, error) {
	return Acquire(ctx, s, r, w.queues()...)
}

// inBubble runs f in a fixture whose every goroutine is gone at the end.
func inBubble(t *testing.T, o etcdfake.Options, f func(w *fixture)) {
	t.Helper()
	inmemory.InBubble(t, o, func(kit *inmemory.Fixture) { f(&fixture{Fixture: kit, f: kit.Cluster}) })
}

// linearizable fails the test if a transaction contains a read that may be out of date (H3).
func (w *fixture) linearizable(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if t, ok := req.(*pb.TxnRequest); ok {
		for _, o := range append(t.Success[:len(t.Success):len(t.Success)], t.Failure...) {
			assert.False(w, o.GetRequestRange().GetSerializable(), "a serializable read: %v", t)
		}
	}
	return invoke(ctx, method, req, answer, conn, opts...)
}

// session returns a session on a new client, as another process has it.
func (w *fixture) session() *session.Session { return w.sessionWith(pawl.Config{}) }

func (w *fixture) sessionWith(cfg pawl.Config) *session.Session {
	w.Helper()
	c := w.Dial(cfg, grpc.WithChainUnaryInterceptor(w.linearizable))
	s, err := c.Session(w.Context())
	require.NoError(w, err)
	w.others.join(c)
	return hooks.SessionOf(s)
}

// queue returns the queue that most tests use.
func (w *fixture) queue() Queue {
	if w.limit > 0 {
		all, err := Options{}.Queues("", []Want{{Name: "name", Mode: observe.Semaphore, Limit: w.limit}})
		require.NoError(w, err)
		return all[0]
	}
	l, err := New("", "name", w.etcd)
	require.NoError(w, err)
	l.Shared = w.shared
	return l
}

// acquireExclusive acquires alone, whatever the fixture's mode.
func (w *fixture) acquireExclusive(s *session.Session) *Acquisition {
	w.Helper()
	q := w.queue()
	q.Shared = false
	c, err := Acquire(w.Context(), s, Request{}, q)
	require.NoError(w, err)
	w.held(c)
	return c
}

// keys are the lock keys in the queue.
func (w *fixture) keys() []string { return w.f.Keys(w.queue().Prefix) }

func (w *fixture) acquire(s *session.Session) *Acquisition {
	w.Helper()
	c, err := w.take(w.Context(), s, labelled(Request{}, len(w.queues())))
	require.NoError(w, err)
	w.held(c)
	return c
}

// labelled gives r the value of the keys of n names if it has none, because Resume checks the
// value.
func labelled(r Request, n int) Request {
	label := keys.NewLabel(keys.Identity{})
	switch {
	case r.Value != nil:
	case n > 1:
		r.Value = label.Multi(time.Now(), make([]string, n))
	default:
		r.Value = keys.InEtcdLayout(label.Lock(time.Now())) // it is not handed off to
	}
	return r
}

// held asserts what is true of every hold: its token is the create revision of its key (K1), and no
// conflicting key was created before that.
func (w *fixture) held(c *Acquisition) {
	w.Helper()
	require.NoError(w, c.Err())
	for i, q := range c.queues {
		kv := w.f.Get(c.owned()[i])
		require.NotNil(w, kv, "held, and its key is not there")
		assert.Equal(w, kv.CreateRevision, int64(c.Token()))
		if q.Limit > 0 {
			w.holdsSlot(c)
			continue
		}
		for _, k := range w.f.Keys(q.Prefix) {
			if q.Shared && strings.HasPrefix(k, q.Prefix+"+") {
				continue
			}
			assert.GreaterOrEqual(w, w.f.Get(k).CreateRevision, kv.CreateRevision, "%s is before the holder", k)
		}
	}
}

var errGivenBack = errors.New("given back")

func (w *fixture) release(c *Acquisition) {
	w.Helper()
	require.NoError(w, c.Release(w.Context(), errGivenBack))
	assert.ErrorIs(w, c.Err(), errGivenBack)
	assert.NotErrorIs(w, c.Err(), ErrLost)
	for _, key := range c.AllKeys() {
		assert.Nil(w, w.f.Get(key))
	}
}

// acquireCall is an Acquire under way.
type acquireCall struct {
	w    *fixture
	c    *Acquisition
	err  error
	took time.Duration
	done chan struct{}
}

// acquiring starts an Acquire, and returns when it waits for something.
func (w *fixture) acquiring(ctx context.Context, s *session.Session, r Request) *acquireCall {
	a := &acquireCall{w: w, done: make(chan struct{})}
	queues := w.queues()
	go func() {
		defer close(a.done)
		began := time.Now()
		a.c, a.err = Acquire(ctx, s, r, queues...)
		a.took = time.Since(began)
		assert.NotEqual(w, a.c == nil, a.err == nil, "an error and a handle are never both nil, nor both set")
	}()
	synctest.Wait()
	return a
}

func (w *fixture) waiting(s *session.Session) *acquireCall {
	a := w.acquiring(w.Context(), s, Request{})
	if isClosed(a.done) { // before that, the call writes what it returns
		require.Fail(w, "it does not wait", "%v %v", a.c, a.err)
	}
	return a
}

// won waits until the call has returned an acquisition, and returns that.
func (a *acquireCall) won() *Acquisition {
	a.w.Helper()
	<-a.done
	require.NoError(a.w, a.err)
	a.w.held(a.c)
	return a.c
}

// failed waits until the call has returned an error.
func (a *acquireCall) failed() error {
	a.w.Helper()
	<-a.done
	require.Error(a.w, a.err)
	return a.err
}

// causes are all causes that a loss or a failed acquisition can match.
var causes = []error{
	ErrKeyDeleted, ErrKeyOverwritten, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed, pawl.ErrClusterChanged,
}

// oneCause asserts that err matches want and no other cause.
func (w *fixture) oneCause(want, err error) {
	w.Helper()
	require.Error(w, err)
	var got []error
	for _, c := range causes {
		if errors.Is(err, c) {
			got = append(got, c)
		}
	}
	assert.Equal(w, []error{want}, got, "causes of %q", err)
}

// clear asserts that nothing is left in the queue a second from now, and that another session can
// acquire it.
func (w *fixture) clear() {
	w.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	assert.Empty(w, w.f.Keys("name"), "left in a queue")
	assert.Empty(w, w.f.Keys("//pawl/sem/"), "left in a semaphore's queue")
	other := w.session()
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	c, err := w.take(ctx, other, Request{})
	if assert.NoError(w, err, "another session's turn") {
		w.release(c)
	}
	require.NoError(w, other.Close(w.Context()))
}

func (c *Acquisition) String() string { return fmt.Sprintf("%s@%d", c.Key(), c.Token()) }

// leaseOf are a session's options with this time to live.
func leaseOf(ttl time.Duration) lease.Options { return lease.Options{TTL: ttl} }

var (
	errNoLeader  = rpctypes.ErrGRPCNoLeader
	errForbidden = rpctypes.ErrGRPCPermissionDenied
	errRevoked   = lease.ErrRevoked
	errClosed    = lease.ErrClosed
)
