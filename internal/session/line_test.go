package session

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// The client's own enqueues may be why a renewal is late, so fewer are under way until one is confirmed.
// Another session of the client is bound likewise.
// rule: G12
func TestEnqueuesAreFewWhileARenewalIsLate(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		late, other := r.session(lease.Options{TTL: 8 * time.Second}), r.session(lease.Options{TTL: time.Minute})
		var mu sync.Mutex
		var leave []gate.Place
		enter := func() {
			for range 300 {
				go func() { // until there is room
					if at, err := other.Enqueues(t.Context(), "enqueue", 1); err == nil {
						mu.Lock()
						leave = append(leave, at)
						mu.Unlock()
					}
				}()
				synctest.Wait()
			}
		}
		empty := func() {
			for len(leave) > 0 {
				first := leave[0]
				leave = leave[1:]
				first.Leave()
				synctest.Wait()
			}
		}
		enter()
		assert.Len(t, leave, 200)
		empty()

		silent := r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Hang: true})
		sleep(2*time.Second + 299*time.Millisecond) // a renewal is under way, and not late
		enter()
		assert.Len(t, leave, 200)
		empty()
		sleep(time.Millisecond)
		enter()
		assert.Len(t, leave, 25)
		silent.Lift()
		sleep(time.Second)
		require.NoError(t, late.Err())
		assert.Len(t, leave, 200, "a renewal was confirmed")
		empty()
	})
}

// What is late does not stay so when its session ends.
// rule: G12
func TestASessionThatEndsWhileItsRenewalIsLateBoundsNobody(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		late, other := r.session(lease.Options{TTL: 3 * time.Second}), r.session(lease.Options{TTL: time.Minute})
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Hang: true})
		<-late.Done()
		<-late.Stopped()
		n := 0
		for range 200 {
			go func() { // the room is sufficient
				if _, err := other.Enqueues(t.Context(), "enqueue", 1); err == nil {
					n++
				}
			}()
			synctest.Wait()
		}
		assert.Equal(t, 200, n)
	})
}

func TestASessionWithManyKeysAndAPasswordIsLoggedOnce(t *testing.T) {
	for _, user := range []string{"", "app"} {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			var log lines
			c, err := cluster.Dial(t.Context(), cluster.Config{Endpoints: r.Endpoints(), DialOptions: []grpc.DialOption{r.DialOption()},
				Username: user, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			h := Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Cleanup: &cleanup.Group{}}
			s, err := Grant(t.Context(), h, lease.Options{})
			require.NoError(t, err)
			said := func() int { synctest.Wait(); return strings.Count(log.String(), "many keys on one session") }
			enqueue := func(n int) {
				for range n {
					_, _, err := opens(s, keys.Spec{Prefix: "name/"})
					require.NoError(t, err)
					at, err := s.Enqueues(t.Context(), "enqueue", 1)
					require.NoError(t, err)
					at.Leave()
				}
			}
			enqueue(1_000)
			assert.Zero(t, said())
			enqueue(10)
			if user == "" {
				assert.Zero(t, said())
			} else {
				assert.Equal(t, 1, said())
			}
			s.CloseInBackground()
			<-s.Stopped()
			h.Cleanup.Close(2 * time.Second)
			h.Watches.Close()
			require.NoError(t, c.Close())
		})
	}
}
