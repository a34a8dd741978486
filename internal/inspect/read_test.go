package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func TestReadReturnsLocksAndElectionsWithTheirQueues(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Namespace = "app/"
		ann, bob := w.Session("ann"), w.Session("bob")
		h := w.Holds(ann, "backup")
		w.waits(w.Context(), bob, "backup")
		w.Holds(bob, "reports/daily")
		w.leads(ann, "chief", "at desk 7")
		nested, err := lock.New(bob, "x/y", lock.Options{EtcdLayout: true}).Acquire(w.Context())
		require.NoError(w, err)
		w.Cluster.Put("app/backup/readme", "", 0)
		w.Cluster.Put("app/old/1f", "", w.Cluster.Leases()[0].ID) // names another lease than it is on
		w.Cluster.Put("other/lock/1f-1", inspect.SomeLabel, 0)

		s := w.read(inspect.Scope{})
		assert.Equal(w, []string{
			"lock backup: ann bob :foreign", "election chief: ann", "lock reports/daily: bob", "lock etcd x/y: bob",
		}, sketch(s))
		assert.Equal(w, w.Cluster.Revision(), s.Revision)
		p, ok := s.Queues[0].Holder()
		require.True(w, ok)
		assert.Equal(w, h.Key(), p.Key)
		assert.Equal(w, h.Token(), p.Token)
		assert.Equal(w, ann.ID(), p.Lease)
		assert.Equal(w, "at desk 7", string(s.Queues[1].Queue[0].Value))
		assert.Equal(w, nested.Key(), s.Queues[3].Queue[0].Key)
		assert.NotZero(w, p.PID)
		assert.NotEmpty(w, p.Host)

		assert.Equal(w, []string{"lock reports/daily: bob"}, sketch(w.read(inspect.Scope{Prefix: "rep"})))
		assert.Equal(w, []string{"lock reports/daily: bob"}, sketch(w.read(inspect.Scope{Prefix: "reports/"})))
		assert.Equal(w, []string{"lock reports/daily: bob"}, sketch(w.read(inspect.Scope{Name: "reports/daily"})))
		assert.Equal(w, []string{"lock etcd x/y: bob"}, sketch(w.read(inspect.Scope{Name: "x/y", EtcdLayout: true})))
		assert.Equal(w, []string{"lock etcd x/y: bob"}, sketch(w.read(inspect.Scope{Prefix: "x"})))
		assert.Empty(w, w.read(inspect.Scope{Prefix: "/"}).Queues)
		assert.Empty(w, w.read(inspect.Scope{Name: "nobody"}).Queues)
		assert.Equal(w, []string{"lock old: :foreign"}, sketch(w.read(inspect.Scope{Name: "old"})))
		_, err = inspect.Read(w.Context(), w.Client(), inspect.Scope{Name: "//pawl", EtcdLayout: true})
		assert.ErrorContains(w, err, "sessions' own keys")
	})
}

func TestReadGoesPageByPage(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for i := range 2*inspect.Page + 7 {
			w.Cluster.Put(fmt.Sprintf("n%04d/1f-%d", i, i+1), inspect.SomeLabel, 0)
		}
		s := w.read(inspect.Scope{})
		require.Len(w, s.Queues, 2*inspect.Page+7)
		assert.Equal(w, "n2006", s.Queues[2*inspect.Page+6].Name)
	})
}

// pages has n pages of keys at root, and what happens once the first of them was read.
func (w *fixture) pages(n int, root string, between func()) {
	for i := range (n-1)*inspect.Page + 7 {
		w.Cluster.Put(fmt.Sprintf("%s%04d/1f-%d", root, i, i+1), inspect.SomeLabel, 0)
	}
	done := false
	w.Cluster.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
		ops := q.Message.(*pb.TxnRequest).Success
		if r := ops[0].GetRequestRange(); r.GetLimit() == inspect.Page && strings.HasSuffix(string(r.Key), "\x00") && !done {
			done = true
			between()
		}
		return false
	}})
	w.Cleanup(func() { require.True(w, done, "there was a second page") })
}

// So does what is read in one range of several pages.
func TestAllPagesAreReadAtOneRevision(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.pages(2, "n", func() {
			w.Cluster.Put("n9999/1f-5000", inspect.SomeLabel, 0)
			w.Cluster.Delete("n1003/1f-1004")
		})
		s := w.read(inspect.Scope{Prefix: "n"})
		require.Len(w, s.Queues, inspect.Page+7)
		assert.Equal(w, "n1006", s.Queues[inspect.Page+6].Name)
		assert.Equal(w, w.Cluster.Revision()-2, s.Revision)
	})
}

// The revision of the first page may be compacted before the next is read.
func TestAReadWhoseRevisionIsCompactedBeginsAgain(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.pages(2, "n", func() {
			w.Cluster.Delete("n1003/1f-1004")
			w.Cluster.Compact(w.Cluster.Revision())
		})
		require.Len(w, w.read(inspect.Scope{Prefix: "n"}).Queues, inspect.Page+6)
	})
	inBubble(t, func(w *fixture) {
		w.pages(2, "//pawl/", func() { w.Cluster.Compact(w.Cluster.Put("//pawl/x", "", 0)) })
		got, err := inspect.Sessions(w.Context(), w.Client())
		require.NoError(w, err)
		require.Len(w, got, inspect.Page+8)
	})
}

// A Snapshot shows one moment, though it is read in four ranges, each layout and the semaphores in
// each: what comes between them is not in it.
func TestAllRangesAreReadAtOneRevision(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Cluster.Put("jobs1/1f-1", inspect.SomeLabel, 0)
		reads := 0
		w.Cluster.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
			ops := q.Message.(*pb.TxnRequest).Success
			if len(ops) == 1 && ops[0].GetRequestRange().GetKeysOnly() {
				if reads++; reads == 2 {
					w.Cluster.Put("/jobs%2F2/1f-2", inspect.SomeLabel, 0)
				}
			}
			return false
		}})
		s := w.read(inspect.Scope{Prefix: "jobs"})
		require.Equal(w, 4, reads)
		require.Len(w, s.Queues, 1)
		assert.Equal(w, "jobs1", s.Queues[0].Name)
		assert.Equal(w, w.Cluster.Revision()-1, s.Revision)
	})
}

// The queue of a name in etcd's layout contains the keys of names below it.
func TestAReadOfANameReturnsItsQueueAlone(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Cluster.Put("x/1f-1", inspect.SomeLabel, 0)
		w.Cluster.Put("x/y/1f-2", inspect.SomeLabel, 0)
		s := w.read(inspect.Scope{Name: "x", EtcdLayout: true})
		require.Len(w, s.Queues, 1)
		assert.Equal(w, "x", s.Queues[0].Name)
	})
}

// In that queue the keys of names below are foreign, whatever they are in the queues of those
// names.
func TestAKeyOfANameBelowIsForeign(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Cluster.Put("x/y/1f-1", "a candidate's value", 0)
		w.Cluster.Put("x/1f-2", inspect.SomeLabel, 0)
		queues := w.read(inspect.Scope{}).Queues
		require.Len(w, queues, 2)
		for _, q := range queues {
			below := q.Queue[0]
			require.Equal(w, "x/y/1f-1", below.Key)
			own := q.Name == "x/y"
			assert.Equal(w, own, below.Form == inspect.Pawl, q.Name)
			assert.Equal(w, own, below.Mode == inspect.ModeExclusive, q.Name)
			assert.Equal(w, own, below.Election, q.Name)
			assert.Equal(w, own, len(below.Value) > 0, q.Name)
			assert.True(w, below.Holds, "it blocks both")
		}
	})
}

func TestForeignKeysBeyondTheBoundAreCounted(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for i := range inspect.MaxOthers + 3 {
			w.Cluster.Put(fmt.Sprintf("x/%d", i), "", 0)
		}
		assert.Equal(w, 3, w.read(inspect.Scope{}).Ignored)
	})
}

func TestEachLeaseIsQueriedOnce(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ann, err := w.Client().NewSession(w.Context(), lease.Options{TTL: 9 * time.Second})
		require.NoError(w, err)
		got, err := inspect.Leases(w.Context(), w.Client(), ann.ID(), 0, 77, ann.ID())
		require.NoError(w, err)
		assert.Len(w, got, 2)
		assert.Equal(w, 9*time.Second, got[ann.ID()].Granted)
		assert.Greater(w, got[ann.ID()].Left, 5*time.Second)
		assert.True(w, got[77].Gone)
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.Client()
		w.Cluster.BlackHole()
		defer w.Cluster.Heal()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := inspect.Read(ctx, c, inspect.Scope{})
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		_, err = inspect.Leases(ctx, c, 7)
		assert.ErrorIs(w, err, context.DeadlineExceeded)
	})
}

func TestEvictEndsTheHolderAndTheNextHasAGreaterToken(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ann, bob := w.Session("ann"), w.Session("bob")
		h := w.Holds(ann, "backup")
		next := w.waits(w.Context(), bob, "backup")
		f := w.follow(inspect.Scope{Prefix: "b"})
		p := w.read(inspect.Scope{Name: "backup"}).Queues[0].Queue[0]
		require.NoError(w, inspect.Evict(w.Context(), w.Client(), p, "carol"))
		<-h.Done()
		assert.ErrorIs(w, h.Err(), lock.ErrKeyDeleted)
		b := <-next
		assert.Greater(w, b.Token(), h.Token())
		f.reports("backup lost (broken) by carol", "backup acquired")

		assert.ErrorIs(w, inspect.Evict(w.Context(), w.Client(), p, "carol"), inspect.ErrGone)
		assert.NoError(w, b.Err(), "the next one is left alone")
		require.NoError(w, ann.Close(w.Context()))
		require.NoError(w, bob.Close(w.Context()))
		assert.Empty(w, w.Cluster.Keys(""), "the mark goes with the lease")
	})
}

// Who evicted the one is not who gave the others of a set back.
func TestTheEvictionOfOneNameIsNotThatOfItsSet(t *testing.T) {
	inBubble(t, func(w *fixture) {
		f := w.follow(inspect.Scope{})
		h, err := lock.NewMulti(w.Session("ann"), lock.Options{}, lock.Exclusive("a"), lock.Exclusive("b")).Acquire(w.Context())
		require.NoError(w, err)
		f.reports("a acquired", "b acquired")
		p, _ := w.read(inspect.Scope{Name: "a"}).Queues[0].Holder()
		require.NoError(w, inspect.Evict(w.Context(), w.Client(), p, "carol"))
		f.reports("a lost (broken) by carol")
		require.ErrorIs(w, h.Release(w.Context()), lock.ErrLost)
		f.reports("b released (key deleted)")
	})
}

func TestEvictEndsATermAndAForeignKey(t *testing.T) {
	inBubble(t, func(w *fixture) {
		term := w.leads(w.Session("ann"), "chief", "v")
		w.Cluster.Put("old/readme", "", 0)
		for _, name := range []string{"chief", "old"} {
			require.NoError(w, inspect.Evict(w.Context(), w.Client(), w.read(inspect.Scope{Name: name}).Queues[0].Queue[0], "x"))
			assert.Empty(w, w.read(inspect.Scope{Name: name}).Queues)
		}
		<-term.Done()
		assert.ErrorIs(w, term.Err(), elect.ErrKeyDeleted)
		assert.Error(w, inspect.Evict(w.Context(), w.Client(), inspect.Position{}, "x"))
	})
}

func TestEvictWorksOnAFullDiskWithoutAMark(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.Holds(w.Session("ann"), "backup")
		p := w.read(inspect.Scope{}).Queues[0].Queue[0]
		w.Cluster.SetNoSpace(true)
		require.NoError(w, inspect.Evict(w.Context(), w.Client(), p, "carol"))
		assert.Nil(w, w.Cluster.Get(h.Key()))
	})
}

// The first request may have been executed although the answer is that the disk is full.
func TestAnEvictionThatWasExecutedOnAFullDiskIsASuccess(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.Holds(w.Session("ann"), "backup")
		p := w.read(inspect.Scope{}).Queues[0].Queue[0]
		f := w.Cluster.Inject(etcdfake.Rule{Op: "evict", Times: 1, Err: rpctypes.ErrGRPCNoSpace})
		require.NoError(w, inspect.Evict(w.Context(), w.Client(), p, "carol"))
		assert.Equal(w, 1, f.Hits())
		assert.Nil(w, w.Cluster.Get(h.Key()))
	})
}

func TestSessionsAreReadWithTheLeaseThatEachNames(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Namespace = "ns/"
		ann := w.Session("ann")
		w.Cluster.Put("ns///pawl/1f/3", "", ann.ID())
		w.Cluster.Put("ns///pawl/x", "", 0)
		got, err := inspect.Sessions(w.Context(), w.Client())
		require.NoError(w, err)
		require.Len(w, got, 3)
		byName := map[int64]inspect.SessionKey{}
		for _, k := range got {
			byName[k.KeyLease] = k
		}
		assert.Equal(w, "ann", byName[ann.ID()].Owner)
		assert.Equal(w, ann.ID(), byName[ann.ID()].Lease)
		assert.True(w, byName[0x1f].Below)
		assert.Zero(w, byName[0].Lease)
	})
}
