package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// fixture is a cluster, and clients of it, in a bubble.
type fixture struct {
	*inmemory.Fixture
	f      *etcdfake.Cluster
	spare  *pawl.Client // on which nothing is held
	secure pawl.Config  // what clients need for TLS and authentication
}

// inBubble runs f in a fixture of three members. All of its goroutines have ended at the end.
func inBubble(t *testing.T, f func(w *fixture)) { t.Helper(); inBubbleOf(t, 3, f) }

func inBubbleOf(t *testing.T, members int, f func(w *fixture)) {
	t.Helper()
	inmemory.InBubble(t, etcdfake.Options{Members: members}, func(kit *inmemory.Fixture) {
		w := &fixture{Fixture: kit, f: kit.Cluster}
		w.spare = w.client(pawl.Config{})
		f(w)
	})
}

func (w *fixture) client(cfg pawl.Config) *pawl.Client {
	w.Helper()
	cfg.TLS = w.secure.TLS
	if w.secure.Username != "" {
		cfg.Username, cfg.Password = w.secure.Username, w.secure.Password
	}
	return w.Dial(cfg)
}

// session returns a session on a new client, as another process has it.
func (w *fixture) session() *pawl.Session {
	w.Helper()
	s, err := w.client(pawl.Config{}).Session(w.Context())
	require.NoError(w, err)
	return s
}

// mutex returns a Mutex of the name that most tests lock, on s.
func mutex(s *pawl.Session) *lock.Mutex { return lock.New(s, "name", lock.Options{}) }

func (w *fixture) keys() []string { return w.f.Keys("name/") }

func (w *fixture) acquire(s *pawl.Session) *lock.Held {
	w.Helper()
	h, err := mutex(s).Acquire(w.Context())
	require.NoError(w, err)
	w.held(h)
	return h
}

// held asserts what is true of every hold: the token is the create revision of the key (K1), which
// is first in the queue.
func (w *fixture) held(h *lock.Held) {
	w.Helper()
	require.NoError(w, h.Err())
	key := w.f.Get(h.Key())
	require.NotNil(w, key, "held, and its key is not there")
	assert.Equal(w, fencing.Token(key.CreateRevision), h.Token())
	for _, k := range w.keys() {
		assert.GreaterOrEqual(w, w.f.Get(k).CreateRevision, key.CreateRevision, "%s is before the holder", k)
	}
	assert.True(w, h.Deadline().After(time.Now()))
	assert.False(w, isClosed(h.Done()))
	_, token, ok := fencing.FromContext(h.Context())
	assert.True(w, ok)
	assert.Equal(w, h.Token(), token)
}

func (w *fixture) release(h *lock.Held) {
	w.Helper()
	ctx, done := h.Context(), h.Done()
	require.NoError(w, h.Release(w.Context()))
	w.released(h)
	assert.NoError(w, ctx.Err(), "Context is not cancelled at Release")
	assert.True(w, isClosed(done))
}

// released asserts what is true after a release.
func (w *fixture) released(h *lock.Held) {
	w.Helper()
	assert.ErrorIs(w, h.Err(), lock.ErrReleased)
	assert.NotErrorIs(w, h.Err(), lock.ErrLost)
	assert.Zero(w, h.Deadline())
	assert.True(w, isClosed(h.Done()))
	if key := w.f.Get(h.Key()); key != nil {
		assert.NotEqual(w, key.CreateRevision, int64(h.Token()))
	}
}

// acquireCall is an Acquire under way.
type acquireCall struct {
	w    *fixture
	h    *lock.Held
	err  error
	took time.Duration
	done chan struct{}
}

func (w *fixture) acquiring(ctx context.Context, m *lock.Mutex) *acquireCall {
	a := &acquireCall{w: w, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		began := time.Now()
		a.h, a.err = m.Acquire(ctx)
		a.took = time.Since(began)
		assert.NotEqual(w, a.h == nil, a.err == nil, "an error and a handle are never both nil, nor both set")
	}()
	synctest.Wait()
	return a
}

func (w *fixture) waiting(s *pawl.Session) *acquireCall {
	w.Helper()
	a := w.acquiring(w.Context(), mutex(s))
	if isClosed(a.done) { // otherwise err is not to be read yet
		require.Fail(w, "it does not wait", "%v", a.err)
	}
	return a
}

func (a *acquireCall) waits() bool { synctest.Wait(); return !isClosed(a.done) }

func (a *acquireCall) won() *lock.Held {
	a.w.Helper()
	<-a.done
	require.NoError(a.w, a.err)
	a.w.held(a.h)
	return a.h
}

func (a *acquireCall) failed() error {
	a.w.Helper()
	<-a.done
	require.Error(a.w, a.err)
	return a.err
}

// causes are all causes that a loss or a failed acquisition can match.
var causes = []error{
	lock.ErrKeyDeleted, lock.ErrKeyOverwritten, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed, pawl.ErrClusterChanged,
	lock.ErrMaxHold, lock.ErrStalled,
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

// lostBy asserts that h is lost, by one cause, wherever that is reported.
func (w *fixture) lostBy(want error, h *lock.Held) {
	w.Helper()
	key, token, guard := h.Key(), h.Token(), h.Guard()
	err := h.Err()
	w.oneCause(want, err)
	assert.ErrorIs(w, err, lock.ErrLost)
	synctest.Wait() // a watch or a timer may have marked the loss first, and be ending its contexts
	assert.True(w, isClosed(h.Done()))
	assert.ErrorIs(w, h.Context().Err(), context.Canceled)
	w.oneCause(want, context.Cause(h.Context()))
	assert.ErrorIs(w, context.Cause(h.Context()), lock.ErrLost)
	assert.Zero(w, h.Deadline())
	calls := map[string]error{
		"Release": h.Release(w.Context()),
		"Confirm": h.Confirm(w.Context()),
		"Do": h.Do(w.Context(), func(context.Context) error {
			w.Error("called though it is not held")
			return nil
		}),
	}
	for name, err := range calls {
		w.oneCause(want, err)
		assert.ErrorIs(w, err, lock.ErrLost, name)
	}
	synctest.Wait() // what is removed in the background is not counted
	before := w.f.Counts()
	_, err = w.spare.KV().Txn(w.Context(), kv.Txn{Guards: []kv.Guard{guard}, Then: []kv.Op{kv.Put("guarded", nil)}})
	assert.ErrorIs(w, err, kv.ErrFenced)
	assert.Zero(w, w.f.Counts().Since(before).Received["Txn"], "a guard known to be lost is refused here")
	assert.Equal(w, []any{key, token, guard}, []any{h.Key(), h.Token(), h.Guard()}, "they stay the same after the end")
}

// clear asserts that nothing is left in the queue a second from now, and that another session can
// acquire it.
func (w *fixture) clear() {
	w.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	assert.Empty(w, w.keys(), "left in the queue")
	other := w.session()
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	h, err := mutex(other).Acquire(ctx)
	if assert.NoError(w, err, "another session's turn") {
		w.release(h)
	}
	require.NoError(w, other.Close(w.Context()))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// quietWatches makes every watch deliver nothing.
var quietWatches = etcdfake.Rule{Method: "Watch", Lose: true}

func (w *fixture) acquireName(s *pawl.Session, name string) *lock.Held {
	w.Helper()
	h, err := lock.New(s, name, lock.Options{}).Acquire(w.Context())
	require.NoError(w, err)
	return h
}
