package queue

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// failOnAFullDisk makes n acquisitions fail. Their enqueues are answered or, by rule, not.
func failOnAFullDisk(w *fixture, s *session.Session, n int, rule etcdfake.Rule) {
	f := w.f.Inject(isEnqueue.rule(rule))
	for range n {
		ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
		_, err := Acquire(ctx, s, Request{}, w.queue())
		cancel()
		require.Error(w, err)
	}
	f.Lift()
}

// A6: on a full disk, what an idle client has to undo costs at most two requests a second
// altogether, and fewer as time passes, although no cancel key can be put there.
// rule: A6
func TestAnIdleClientOnAFullDiskSendsLittle(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.SetNoSpace(true)
		undos := w.f.Inject(isUndo.rule(etcdfake.Rule{}))
		failOnAFullDisk(w, s, 100, etcdfake.Rule{})
		failOnAFullDisk(w, s, 100, etcdfake.Rule{Lose: true})
		time.Sleep(5 * time.Second) // each was tried once
		synctest.Wait()
		assert.Empty(w, w.keys())
		var sent []int
		for range 4 {
			before := undos.Hits()
			time.Sleep(time.Minute)
			synctest.Wait()
			sent = append(sent, undos.Hits()-before)
		}
		assert.LessOrEqual(w, sent[0], 2*60)
		assert.Positive(w, sent[3], "it has not given up")
		assert.LessOrEqual(w, sent[3], 2*60/15)
		w.f.SetNoSpace(false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Len(w, cancels(w, s), 100, "of the enqueues that were never answered")
		w.clear()
	})
}

// A5: an enqueue that was answered leaves no cancel key, even if the answer was that the disk is
// full. When there is space again, the lease has one key for each lock, and the session key.
// rule: A5
func TestAFullDiskLeavesNoKeysOnTheLease(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"refused":  {},
		"executed": {Err: rpctypes.ErrGRPCNoSpace},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.session()
				other, err := New("", "other", false)
				require.NoError(w, err)
				held, err := Acquire(w.Context(), s, Request{}, other)
				require.NoError(w, err)
				if rule.Err == nil {
					w.f.SetNoSpace(true)
				}
				f := w.f.Inject(isEnqueue.rule(rule))
				for range 136 {
					c, err := Acquire(w.Context(), s, Request{}, w.queue())
					if rule.Err != nil {
						require.NoError(w, err)
						w.release(c)
						continue
					}
					require.True(w, cluster.IsNoSpace(err), "%v", err)
				}
				f.Lift()
				synctest.Wait()
				assert.Empty(w, w.keys(), "also on a full disk")
				w.f.SetNoSpace(false)
				time.Sleep(time.Minute)
				key, _ := s.Key()
				assert.Equal(w, []string{key}, w.f.Keys(key))
				assert.Equal(w, []string{held.Key()}, w.f.Keys("other/"))
				require.NoError(w, held.Release(w.Context(), errGivenBack))
			})
		})
	}
}

// A6: a key that exists is deleted as soon as possible, also on a full disk where cancel keys have
// waited for long. A deletion that fails does not wait with them.
// rule: A6
func TestADeletionThatFailsDoesNotWaitForDiskSpace(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.SetNoSpace(true)
		failOnAFullDisk(w, s, 1, etcdfake.Rule{Lose: true})
		time.Sleep(3 * time.Minute)
		w.f.SetNoSpace(false)
		go func() { // ends before the wait for the key
			time.Sleep(20 * time.Millisecond)
			w.f.SetNoSpace(true)
		}()
		onlyDeletes := func(q etcdfake.Request) bool {
			t := isUndo.of(q)
			return t != nil && !slices.ContainsFunc(t.Success, func(o *pb.RequestOp) bool { return o.GetRequestPut() != nil })
		}
		f := w.f.Inject(etcdfake.Rule{Match: onlyDeletes, Lose: true, Err: status.Error(codes.Unavailable, "cut")})
		failOnAFullDisk(w, s, 1, etcdfake.Rule{Late: 10 * time.Millisecond, Hang: true})
		time.Sleep(time.Second)
		assert.Len(w, w.keys(), 1)
		f.Lift()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(w, w.keys())
		w.f.SetNoSpace(false)
		time.Sleep(time.Minute)
		assert.Len(w, cancels(w, s), 2)
		w.clear()
	})
}
