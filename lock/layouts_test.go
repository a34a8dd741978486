package lock_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// logged returns a session of a client with a namespace and a log.
func (w *fixture) logged() (*pawl.Session, *inmemory.Log) {
	w.Helper()
	log := new(inmemory.Log)
	s, err := w.client(pawl.Config{Namespace: "ns/", Logger: slog.New(slog.NewTextHandler(log, nil))}).Session(w.Context())
	require.NoError(w, err)
	return s, log
}

const bothLayouts = "a name is used in both layouts, which do not exclude each other"

// The keys of each name are read once, however often it is used.
func TestAKeyOfTheOtherLayoutIsLoggedOnce(t *testing.T) {
	etcd := lock.Options{EtcdLayout: true}
	for _, c := range []struct {
		use   string
		other string // the other layout's key
		take  func(w *fixture, s *pawl.Session) interface{ Key() string }
	}{
		{"a lock", "ns/a/b/7587", func(w *fixture, s *pawl.Session) interface{ Key() string } {
			h, err := lock.New(s, "a/b", lock.Options{}).Acquire(w.Context())
			require.NoError(w, err)
			return h
		}},
		{"a reader", "ns/a/b/7587-1", func(w *fixture, s *pawl.Session) interface{ Key() string } {
			h, err := lock.New(s, "a/b", lock.Options{}).AcquireShared(w.Context())
			require.NoError(w, err)
			return h
		}},
		{"a try", "ns/a/b/7587", func(w *fixture, s *pawl.Session) interface{ Key() string } {
			h, err := lock.New(s, "a/b", lock.Options{}).TryAcquire(w.Context())
			require.NoError(w, err)
			return h
		}},
		{"a lock in etcd's layout", "ns//a%2Fb/7587-1", func(w *fixture, s *pawl.Session) interface{ Key() string } {
			h, err := lock.New(s, "a/b", etcd).Acquire(w.Context())
			require.NoError(w, err)
			return h
		}},
		{"a candidate", "ns/a/b/7587", func(w *fixture, s *pawl.Session) interface{ Key() string } {
			term, err := elect.New(s, "a/b", elect.Options{}).Campaign(w.Context(), nil)
			require.NoError(w, err)
			return term
		}},
	} {
		t.Run(c.use, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s, log := w.logged()
				w.f.Put(c.other, "", 0)
				key := c.take(w, s).Key()
				synctest.Wait()
				assert.Equal(w, 1, strings.Count(log.String(), bothLayouts), log)
				assert.Contains(w, log.String(), "name=a/b")
				assert.Contains(w, log.String(), "other_key="+c.other)
				assert.Contains(w, log.String(), key[:len("ns/")])
				n := w.counted(func() { w.repeats(s) })
				assert.Zero(w, n.Received["Range"])
				assert.Equal(w, 1, strings.Count(log.String(), bothLayouts), log)
				w.f.Delete(c.other)
			})
		})
	}
}

// repeats takes names of both layouts that the client has used before.
func (w *fixture) repeats(s *pawl.Session) {
	w.Helper()
	for range 3 {
		_, _ = lock.New(s, "a/b", lock.Options{}).TryAcquire(w.Context())
	}
}

func TestASetIsWarnedOfEachOfItsNames(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, log := w.logged()
		for _, key := range []string{"ns/a/b/1", "ns/c/d/1"} {
			w.f.Put(key, "", 0)
		}
		h, err := lock.NewMulti(s, lock.Options{}, lock.Exclusive("a/b"), lock.Exclusive("plain"), lock.Shared("c/d")).Acquire(w.Context())
		require.NoError(w, err)
		synctest.Wait()
		assert.Equal(w, 2, strings.Count(log.String(), bothLayouts), log)
		require.NoError(w, h.Release(w.Context()))
	})
}

// Of two clients that begin at the same time, at least one sees the other.
func TestOfTwoThatBeginInBothLayoutsAtOnceOneIsWarned(t *testing.T) {
	inBubble(t, func(w *fixture) {
		a, logA := w.logged()
		b, logB := w.logged()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := lock.New(a, "a/b", lock.Options{}).Acquire(w.Context())
			assert.NoError(w, err)
		}()
		_, err := lock.New(b, "a/b", lock.Options{EtcdLayout: true}).Acquire(w.Context())
		require.NoError(w, err)
		<-done
		synctest.Wait()
		assert.NotZero(w, strings.Count(logA.String()+logB.String(), bothLayouts))
	})
}

// A foreign key that lies among the keys of the other layout causes no warning.
func TestOtherKeysAreNotOfTheOtherLayout(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, log := w.logged()
		for _, key := range []string{"ns/a/b/c/7587", "ns/a/b/config", "ns/a/b", "a/b/7587", "ns/plain/7588"} {
			w.f.Put(key, "", 0)
		}
		for _, name := range []string{"a/b", "x/y"} {
			h, err := lock.New(s, name, lock.Options{}).Acquire(w.Context())
			require.NoError(w, err)
			w.release(h)
		}
		w.f.Delete("ns/plain/7588")
		_, err := lock.New(s, "plain", lock.Options{EtcdLayout: true}).Acquire(w.Context())
		require.NoError(w, err)
		synctest.Wait()
		assert.NotContains(w, log.String(), bothLayouts)
	})
}

// The first use of a name costs one request if there is a log and the name has a slash, up to a
// hundred of them.
func TestTheOtherLayoutCostsOneReadANameAndClient(t *testing.T) {
	inBubble(t, func(w *fixture) {
		silent := w.session()
		s, _ := w.logged()
		for _, c := range []struct {
			s    *pawl.Session
			name string
			want int
		}{{silent, "silent/%d", 0}, {s, "plain-%d", 0}, {s, "with/%d", 100}, {s, "more/%d", 0}} {
			n := w.counted(func() {
				for i := range 120 {
					for range 2 {
						h, err := lock.New(c.s, fmt.Sprintf(c.name, i), lock.Options{}).Acquire(w.Context())
						require.NoError(w, err)
						require.NoError(w, h.Release(w.Context()))
					}
				}
			})
			assert.Equal(w, map[string]int{"Txn": 480 + c.want}, n.Received, c.name)
		}
	})
}

func TestARefusedReadOfTheOtherLayoutIsNotRepeated(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, log := w.logged()
		refuse := w.f.Inject(etcdfake.Rule{Op: "read other layout", Err: rpctypes.ErrGRPCPermissionDenied})
		for range 3 {
			w.release(w.acquireName(s, "a/b"))
			time.Sleep(time.Minute)
		}
		assert.Equal(w, 1, refuse.Hits())
		assert.NotContains(w, log.String(), "WARN")
	})
}

func TestAReadOfTheOtherLayoutThatGotNoAnswerIsRepeated(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, log := w.logged()
		w.f.Put("ns/a/b/7587", "", 0)
		hang := w.f.Inject(etcdfake.Rule{Op: "read other layout", Hang: true})
		w.release(w.acquireName(s, "a/b"))
		time.Sleep(time.Minute)
		require.NotZero(w, hang.Hits())
		hang.Lift()
		require.NotContains(w, log.String(), bothLayouts)
		for range 3 {
			w.release(w.acquireName(s, "a/b"))
			synctest.Wait()
		}
		assert.Equal(w, 1, strings.Count(log.String(), bothLayouts), log)
	})
}

func TestTheReadOfTheOtherLayoutDelaysNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, _ := w.logged()
		hang := w.f.Inject(etcdfake.Rule{Op: "read other layout", Hang: true})
		began := time.Now()
		h, err := lock.New(s, "a/b", lock.Options{}).Acquire(w.Context())
		require.NoError(w, err)
		w.release(h)
		synctest.Wait()
		require.NotZero(w, hang.Hits())
		require.NoError(w, s.Close(w.Context()))
		assert.Zero(w, time.Since(began))
		w.oneCause(lease.ErrClosed, s.Err())
	})
}
