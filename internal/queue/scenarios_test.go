package queue

import (
	"context"
	"io"
	"log/slog"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// scenarios are the events of the golden texts. In a scenario, no two requests are under way at the
// same time, so revisions are the same each time.
var scenarios = map[string]func(w *fixture){
	"a session": func(w *fixture) {
		s := w.session()
		require.NoError(w, s.Rehearse(w.Context()))
		require.NoError(w, s.Examine(w.Context()))
		time.Sleep(4 * time.Second) // it renews
	},
	"permissions": func(w *fixture) {
		require.NoError(w, session.Permitted(w.Context(), w.session().Host(), w.queue().Prefix))
	},
	"a killed holder": func(w *fixture) { // another process gives back what it held
		s := w.session()
		w.hold(s)
		require.NoError(w, session.Reclaim(w.Context(), w.session().Host(), s.Remains()))
	},
	"an exclusive lock": func(w *fixture) { w.turns() },
	"a shared lock": func(w *fixture) {
		writer := w.hold(w.session())
		w.shared = true
		reader := w.acquiring(w.Context(), w.session(), plain)
		w.release(writer)
		reader.won()
		w.shared = false
		next := w.acquiring(w.Context(), w.session(), plain)
		w.release(reader.c)
		w.release(next.won())
	},
	"a set": func(w *fixture) {
		w.set = []string{"name2", "name3"}
		w.turns()
	},
	"a wanted set": func(w *fixture) {
		w.set = []string{"name2", "name3"} // of which the former is shared
		a := w.hold(w.session())
		w.f.Put("other", "", 0)
		a.Wanted()
		time.Sleep(4 * time.Second) // it renews
		w.release(a)
	},
	"a semaphore": func(w *fixture) {
		w.limit = 1
		w.turns()
	},
	"etcd layout": func(w *fixture) {
		w.etcd = true
		w.turns()
	},
	"a candidate": func(w *fixture) {
		c, err := w.take(w.Context(), w.session(), Request{Value: []byte("0"), Owner: []byte("owner")})
		require.NoError(w, err)
		require.NoError(w, c.Rewrite(w.Context(), []byte("1")))
		w.f.Inject(isRewrite.rule(etcdfake.Rule{Times: 1, Err: rpctypes.ErrGRPCTimeout}))
		require.NoError(w, c.Rewrite(w.Context(), []byte("2")))
		require.NoError(w, c.Confirm(w.Context()))
		w.release(c)
	},
	"hand offs": func(w *fixture) {
		var all []*acquireCall
		for range 4 {
			all = append(all, w.acquiring(w.Context(), w.session(), Request{Value: keys.NewLabel(keys.Identity{}).Lock(time.Time{}), Handoffs: true}))
			time.Sleep(100 * time.Millisecond)
		}
		for _, a := range all {
			w.release(a.won())
			time.Sleep(100 * time.Millisecond)
		}
	},
	"two names of one session": func(w *fixture) { // the second leaves the first's key out of its read, and none overtakes it
		s := w.session()
		one := w.hold(s)
		two := w.acquiring(w.Context(), s, plain)
		w.release(one)
		w.release(two.won())
	},
	"settled": func(w *fixture) { w.settles() },
	"a settled set": func(w *fixture) {
		w.set = []string{"name2"}
		w.settles()
	},
	"a settled permit": func(w *fixture) {
		w.limit = 1
		w.settles()
	},
	"a take whose answer is lost": func(w *fixture) {
		w.limit = 1
		w.f.Inject(isTake.rule(etcdfake.Rule{Times: 1, Err: rpctypes.ErrGRPCTimeout}))
		w.release(w.hold(w.session()))
	},
	"a release whose answer is lost": func(w *fixture) {
		c := w.hold(w.session())
		w.f.Inject(isRelease.rule(etcdfake.Rule{Times: 1, Err: rpctypes.ErrGRPCTimeout}))
		w.release(c)
	},
	"given up": func(w *fixture) { w.givesUp() },
	"a set given up": func(w *fixture) {
		w.set = []string{"name2"}
		w.givesUp()
	},
	"a permit given up": func(w *fixture) {
		w.limit = 1
		w.givesUp()
	},
	"tried": func(w *fixture) { w.tries() },
	"a set tried": func(w *fixture) {
		w.set = []string{"name2"}
		w.tries()
	},
	"a permit tried": func(w *fixture) {
		w.limit = 1
		w.tries()
	},
	"taken over": func(w *fixture) { w.takesOver() },
	"a set taken over": func(w *fixture) {
		w.set = []string{"name2"}
		w.takesOver()
	},
	"a permit taken over": func(w *fixture) {
		w.limit = 1
		w.takesOver()
	},
	"refused": func(w *fixture) {
		w.before(isEnqueue, func(t *pb.TxnRequest) { w.f.Put(cancelKeyOf(t), "theirs", 0) })
		_, err := w.take(w.Context(), w.session(), plain)
		require.Error(w, err)
	},
	"a set refused": func(w *fixture) {
		w.set = []string{"name2"}
		w.before(isEnqueue, func(t *pb.TxnRequest) { w.f.Put(cancelKeyOf(t), "theirs", 0) })
		_, err := w.take(w.Context(), w.session(), plain)
		require.Error(w, err)
	},
	"a release that comes too late": func(w *fixture) {
		c := w.hold(w.session())
		w.swallowing(func(*mvccpb.Event) bool { return true })
		w.f.Delete(c.Key())
		assert.ErrorIs(w, c.Release(w.Context(), errGivenBack), ErrKeyDeleted)
		synctest.Wait() // for the renewal
	},
	"a deleted key": func(w *fixture) {
		c := w.hold(w.session())
		time.Sleep(time.Second) // it is watched
		w.f.Delete(c.Key())
		<-c.Done()
		synctest.Wait()
	},
	"an overwritten key": func(w *fixture) {
		c := w.hold(w.session())
		time.Sleep(time.Second)
		w.f.Put(c.Key(), "theirs", 0)
		<-c.Done()
		synctest.Wait()
	},
	"a set of which a key is deleted": func(w *fixture) {
		w.set = []string{"name2"}
		c := w.hold(w.session())
		w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: time.Second, Times: 1}) // the renewal confirms after the rest is deleted
		time.Sleep(time.Second)
		w.f.Delete(c.Key())
		<-c.Done()
		assert.ErrorIs(w, c.Release(w.Context(), errGivenBack), ErrKeyDeleted)
		time.Sleep(2 * time.Second)
	},
	"a set of which a name is forbidden": func(w *fixture) {
		w.set = []string{"name2"}
		c := w.hold(w.session())
		w.f.Inject(isRelease.rule(etcdfake.Rule{Times: 1, Lose: true, Err: errForbidden}))
		assert.ErrorIs(w, c.Release(w.Context(), errGivenBack), cluster.ErrUnknown)
		synctest.Wait()
	},
	"a name in both layouts": func(w *fixture) {
		w.f.Put("a/b/1-1", "", 0)
		w.set = []string{"a/b"}
		c := w.hold(w.sessionWith(pawl.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))
		synctest.Wait()
		w.release(c)
	},
	"a lock that waits for a candidate": func(w *fixture) {
		const candidate = "name/1-1"
		w.f.Put(candidate, "0", 0)
		s := w.sessionWith(pawl.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		waiter := w.acquiring(w.Context(), s, plain)
		time.Sleep(4 * time.Second) // a round of renewals
		w.f.Delete(candidate)
		w.release(waiter.won())
	},
}

// plain is a request without any option.
var plain = Request{Value: []byte("value")}

// hold makes s hold the fixture's names.
func (w *fixture) hold(s *session.Session) *Acquisition {
	return w.acquiring(w.Context(), s, plain).won()
}

// turns makes two sessions hold one after the other.
func (w *fixture) turns() {
	one, two := w.acquiring(w.Context(), w.session(), plain), w.acquiring(w.Context(), w.session(), plain)
	w.release(one.won())
	w.release(two.won())
}

// settles loses an enqueue's answer.
func (w *fixture) settles() {
	w.f.Inject(isEnqueue.rule(etcdfake.Rule{Times: 1, Err: rpctypes.ErrGRPCTimeout}))
	w.release(w.hold(w.session()))
}

// givesUp gives up while it waits, and then before it is known whether the enqueue was applied.
func (w *fixture) givesUp() {
	holder, waits := w.hold(w.session()), w.session()
	for _, known := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if !known {
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Times: 1, Hang: true}))
		}
		assert.ErrorIs(w, w.acquiring(ctx, waits, plain).failed(), context.DeadlineExceeded)
		synctest.Wait()
	}
	w.release(holder)
}

// tries tries when the names are free, when they are held, and when they are free until the
// enqueue.
func (w *fixture) tries() {
	try := Request{Value: []byte("value"), Try: true}
	c, err := w.take(w.Context(), w.session(), try)
	require.NoError(w, err)
	_, err = w.take(w.Context(), w.session(), try)
	require.ErrorIs(w, err, ErrBusy)
	w.release(c)
	w.before(isEnqueue, func(t *pb.TxnRequest) { w.f.Put(string(t.Success[0].GetRequestPut().Key)+"0", "theirs", 0) })
	_, err = w.take(w.Context(), w.session(), try)
	require.ErrorIs(w, err, ErrBusy)
}

// takesOver makes a successor resume what is held, and leave the queue that the session waited in.
func (w *fixture) takesOver() {
	s := w.session()
	c := w.acquire(s)
	other, err := New("", "other", false)
	require.NoError(w, err)
	_, err = Acquire(w.Context(), w.session(), plain, other)
	require.NoError(w, err)
	go func() { _, _ = Acquire(w.Context(), s, plain, other) }()
	synctest.Wait()
	next := w.successor(s)
	r, err := Resume(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queues()...)
	require.NoError(w, err)
	w.release(r)
}
