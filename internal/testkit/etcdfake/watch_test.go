package etcdfake

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func create(r *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// watchKey watches one key, starting at the next revision, if created is awaited.
func watchKey(t *testing.T, a *client, key string, created bool) pb.Watch_WatchClient {
	t.Helper()
	w, err := a.Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Send(create(&pb.WatchCreateRequest{Key: []byte(key)})))
	if created {
		r, err := w.Recv()
		require.NoError(t, err)
		require.True(t, r.Created)
	}
	return w
}

// delivered returns the events that arrive while nothing else goes on, as "put 2"
// or "delete 3".
func delivered(t *testing.T, w pb.Watch_WatchClient) (out []string) {
	t.Helper()
	got := make(chan *pb.WatchResponse)
	go func() {
		defer close(got)
		for {
			r, err := w.Recv()
			if err != nil {
				return
			}
			got <- r
		}
	}()
	for {
		synctest.Wait()
		select {
		case r, ok := <-got:
			if !ok {
				return out
			}
			for _, e := range r.Events {
				out = append(out, map[mvccpb.Event_EventType]string{0: "put ", 1: "delete "}[e.Type]+string(rune('0'+e.Kv.ModRevision)))
			}
		default:
			return out
		}
	}
}

func TestSwallowedDeletionsAreNotDelivered(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		w := watchKey(t, connect(t, c, 0), "k", true)
		lift := c.Member(0).EditWatches(SwallowDeletes("k"))
		c.Put("k", "1", 0)
		c.Delete("k")
		c.Put("k", "2", 0)
		synctest.Wait()
		lift()
		c.Delete("k")
		assert.Equal(t, []string{"put 2", "put 4", "delete 5"}, delivered(t, w))
	})
}

func TestEventsCanComeTwiceAndAgain(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		w := watchKey(t, connect(t, c, 0), "k", true)
		lift := c.Member(0).EditWatches(Twice)
		c.Put("k", "1", 0)
		synctest.Wait()
		lift()
		c.Member(0).EditWatches(Replay())
		c.Put("k", "2", 0)
		c.Put("k", "3", 0)
		assert.Equal(t, []string{"put 2", "put 2", "put 3", "put 3", "put 4"}, delivered(t, w))
	})
}

func TestCreationCanStayUnanswered(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		lift := c.Member(0).EditWatches(Silence)
		w := watchKey(t, connect(t, c, 0), "k", false)
		c.Put("k", "1", 0)
		assert.Empty(t, delivered(t, w))
		lift()

		c.Inject(Rule{Method: "Watch", Match: OnKey("lost"), Lose: true, Times: 1})
		v := watchKey(t, connect(t, c, 0), "lost", false)
		c.Put("lost", "1", 0)
		require.NoError(t, v.Send(create(&pb.WatchCreateRequest{Key: []byte("lost"), StartRevision: 3})))
		r, err := v.Recv()
		require.NoError(t, err)
		assert.Equal(t, int64(0), r.WatchId, "the one before never arrived")
	})
}

func TestFragmentsHoldWholeEvents(t *testing.T) {
	inBubble(t, Options{MaxFragment: 2500}, func(t *testing.T, c *Cluster) {
		for range 5 {
			c.Put("k", string(make([]byte, 1000)), 0)
		}
		w, err := connect(t, c, 0).Watch(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.Send(create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2, Fragment: true})))
		var sizes []int
		for more := true; more; {
			r, err := w.Recv()
			require.NoError(t, err)
			if !r.Created {
				sizes = append(sizes, len(r.Events))
				more = r.Fragment
			}
		}
		assert.Equal(t, []int{2, 2, 1}, sizes)
	})
}

func TestWatchBehindACompactionEnds(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		w := watchKey(t, connect(t, c, 2), "k", true)
		c.Member(2).Isolate()
		c.Put("k", "1", 0)
		c.Put("k", "2", 0)
		c.Compact(3)
		c.Member(2).Heal()
		r, err := w.Recv()
		require.NoError(t, err)
		assert.True(t, r.Canceled)
		assert.Equal(t, int64(3), r.CompactRevision)
	})
}

func TestFrozenWatchDeliversLater(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		w := watchKey(t, connect(t, c, 0), "k", true)
		c.Member(0).Freeze()
		c.Put("k", "1", 0)
		c.Delete("k")
		c.later(time.Hour, c.Member(0).Heal)
		r, err := w.Recv()
		require.NoError(t, err)
		assert.Len(t, r.Events, 2)
		assert.Equal(t, int64(3), r.Header.Revision)
	})
}

func TestStreamEndsWithTheServersError(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		w := watchKey(t, connect(t, c, 0), "k", true)
		c.Member(0).EndStreams("Watch", rpctypes.ErrGRPCNoLeader)
		_, err := w.Recv()
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, err)
		w = watchKey(t, connect(t, c, 0), "k", true)
		c.Close()
		_, err = w.Recv()
		assert.Error(t, err)
	})
}
