package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// Rules H1, H2: what each event of the session key means. A watch that ends proves
// nothing.
func TestWhatTheWatchOfTheSessionKeyShows(t *testing.T) {
	for name, c := range map[string]struct {
		update func(s *Session) watcher.Update
		lost   string // what Err says; "" if the session continues
		again  bool   // the watch is created again
	}{
		"its own put": {update: func(s *Session) watcher.Update {
			return watcher.Update{Events: []watcher.Event{{Key: s.own.key, CreateRevision: s.own.mod, ModRevision: s.own.mod}}}
		}},
		"a put of somebody else": {lost: "was rewritten", update: func(s *Session) watcher.Update {
			return watcher.Update{Events: []watcher.Event{{Key: s.own.key, CreateRevision: s.own.mod, ModRevision: s.own.mod + 1}}}
		}},
		"its deletion": {lost: "was deleted", update: func(s *Session) watcher.Update {
			return watcher.Update{Events: []watcher.Event{{Key: s.own.key, Deleted: true, ModRevision: s.own.mod + 1}}}
		}},
		"a deletion after its own put": {lost: "was deleted", update: func(s *Session) watcher.Update {
			return watcher.Update{Events: []watcher.Event{{Key: s.own.key, ModRevision: s.own.mod}, {Key: s.own.key, Deleted: true, ModRevision: s.own.mod + 5}}}
		}},
		"a compaction": {again: true, update: func(s *Session) watcher.Update {
			return watcher.Update{Compacted: s.own.mod + 9}
		}},
		"an error": {again: true, update: func(*Session) watcher.Update {
			return watcher.Update{Err: errors.New("permission denied")}
		}},
		"nothing": {update: func(*Session) watcher.Update { return watcher.Update{} }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{})
				synctest.Wait()
				s.keyChanged(c.update(s))
				if c.lost == "" {
					require.NoError(t, s.Err())
				} else {
					requireEnded(t, s, lease.ErrRevoked)
					assert.ErrorContains(t, s.Err(), c.lost)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				assert.Equal(t, c.again, s.keyWatch.ended)
			})
		})
	}
}

// If a session ends while its watch is created, the watch is cancelled.
func TestAWatchThatIsCreatedAfterTheEndIsCancelled(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		require.NoError(t, s.Close(context.Background()))
		s.watchKey(s.own.mod + 1)
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Nil(t, s.keyWatch.watch)
	})
}

// Rules H1, H4: the watch of the session key reports a revocation at once, and so ends all of
// the session's dependents.
func TestARevocationIsReportedAtOnceByTheWatch(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		synctest.Wait()
		r.Revoke(s.ID())
		synctest.Wait()
		assert.True(t, isClosed(s.Done()))
		oneCause(t, s.Err(), lease.ErrRevoked)
	})
}

// Rule H2: a watch that has ended is created again, starting at what the read showed, and a compaction
// does not end the session.
func TestTheWatchOfTheSessionKeyIsCreatedAgainAfterACompaction(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		synctest.Wait()
		r.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: rpctypes.ErrGRPCNoLeader, Times: 3})
		for range 10 {
			r.Put("other", "", 0)
		}
		r.Compact(r.Revision())
		r.Member(0).EndStreams("Watch", rpctypes.ErrGRPCStopped)
		sleep(3 * time.Second) // a round
		require.NoError(t, s.Err())
		sleep(100 * time.Millisecond)
		r.Delete(s.own.key)
		synctest.Wait()
		assert.True(t, isClosed(s.Done()), "shown by the new watch")
		oneCause(t, s.Err(), lease.ErrRevoked)
	})
}

// Rule H2: if a watch swallows a deletion, the next round finds it.
// rule: H2
func TestADeletionThatTheWatchSwallowedIsFoundByTheNextRound(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		for _, m := range r.Members() {
			muteWatches(m)
		}
		sleep(time.Second)
		r.Delete(s.own.key)
		sleep(time.Second - 1)
		require.NoError(t, s.Err())
		sleep(1)
		oneCause(t, s.Err(), lease.ErrRevoked)
	})
}
