package matrix

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// sightings are what the oracle's watch has shown.
type sightings struct {
	mu      sync.Mutex
	created map[string]int64         // a key's create revision
	deleted map[string]time.Duration // when it was seen to be deleted
	keys    map[queued]string
	tokens  []int64 // written under the guard, by revision
	next    int64
	missed  bool // a compaction came first
}

// queued is a queue key by its queue and its create revision, which keys of two queues
// may have in common.
type queued struct {
	queue string
	rev   int64
}

// key is the key of the holder whose operation o is.
func (s *sightings) key(o history.Op) (key string, ok bool) {
	key, ok = s.keys[queued{o.Name, o.Token}]
	return key, ok
}

// watch reads everything in the cell's queue, and what is written under its guard, as it changes,
// whatever happens to the member that shows it.
func watch(t *testing.T, w *fixture) *sightings {
	s, stop := watchUntil(t, w)
	t.Cleanup(stop)
	return s
}

// watchUntil is watch, until stop is called.
func watchUntil(t *testing.T, w *fixture) (s *sightings, stop func()) {
	s = &sightings{created: map[string]int64{}, deleted: map[string]time.Duration{}, keys: map[queued]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := w.oracle.Get(w.within(t), "x")
	if err != nil {
		t.Fatalf("oracle: %v", err)
	}
	s.next = r.Header.Revision + 1
	var bg sync.WaitGroup
	bg.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			s.follow(clientv3.WithRequireLeader(ctx), w)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return s, func() { cancel(); bg.Wait() }
}

// follow watches until the watch breaks.
func (s *sightings) follow(ctx context.Context, w *fixture) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range w.oracle.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(s.next)) {
		at := w.rec.Now()
		s.mu.Lock()
		if r.CompactRevision > 0 {
			s.missed, s.next = true, r.CompactRevision
		}
		for _, ev := range r.Events {
			s.see(ev, at, w)
		}
		if len(r.Events) > 0 {
			s.next = r.Events[len(r.Events)-1].Kv.ModRevision + 1
		}
		s.mu.Unlock()
		if r.Err() != nil {
			return
		}
	}
}

func (s *sightings) see(ev *clientv3.Event, at time.Duration, w *fixture) {
	key := strings.TrimPrefix(string(ev.Kv.Key), keys.SemaphoreRoot("")) // as a lock's of that name
	switch {
	case key == w.data() && !ev.IsCreate() || key == w.data() && ev.Type == clientv3.EventTypePut:
		if token, err := strconv.ParseInt(string(ev.Kv.Value), 10, 64); err == nil {
			s.tokens = append(s.tokens, token)
		}
	case !strings.HasPrefix(strings.TrimPrefix(key, keys.ShardsRoot("")), w.name):
	case ev.IsCreate():
		queue := key[:max(0, strings.LastIndexByte(key, '/'))]
		s.created[key], s.keys[queued{queue, ev.Kv.ModRevision}] = ev.Kv.ModRevision, key
	case ev.Type == clientv3.EventTypeDelete:
		s.deleted[key] = at
	}
}

// appeared waits until n keys were seen in the cell's queue.
func (s *sightings) appeared(t *testing.T, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		have := 0
		for key := range s.created {
			if _, gone := s.deleted[key]; strings.HasPrefix(key, name+"/") && !gone {
				have++
			}
		}
		return have >= n
	}, testscale.Hang, 10*time.Millisecond, "oracle: %d keys never appeared", n)
}

// caughtUp waits until the watch has shown what was written until now: one that was
// created again shows it with etcd's next round.
func (s *sightings) caughtUp(t *testing.T, w *fixture) {
	t.Helper()
	var written int64
	require.Eventually(t, func() bool {
		r, err := w.oracle.Put(w.within(t), "oracle", "")
		if err == nil {
			written = r.Header.Revision
		}
		return err == nil
	}, testscale.Hang, 50*time.Millisecond, "the oracle cannot write")
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.next > written
	}, testscale.Hang, 10*time.Millisecond, "the oracle's watch does not get to revision %d", written)
}

// check compares what the clients learnt with what the oracle saw.
func (s *sightings) check(t *testing.T, ops []history.Op, lossAfter time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.missed {
		for _, o := range ops {
			if o.Kind == history.Acquire && o.Outcome == history.OK {
				_, ok := s.key(o)
				assert.True(t, ok, "a token is the create revision of a key: %v", o)
			}
		}
	}
	for _, o := range ops {
		key, ok := s.key(o)
		if !ok || o.Kind != history.Look || o.Outcome != history.OK {
			continue
		}
		if gone, ok := s.deleted[key]; ok && o.Call > gone+lossAfter {
			t.Errorf("a loss that was seen at %v was not noticed: %v", gone, o)
			break
		}
	}
	for i := 1; i < len(s.tokens); i++ {
		assert.LessOrEqual(t, s.tokens[i-1], s.tokens[i], "writes under the guard, in the order of their revisions")
	}
}

// excused is ops without the looks that said nil after an operator's blow, of holders whose keys
// went after it. Such a holder may still believe that it holds when the next one does. check bounds
// for how long.
func (s *sightings) excused(ops []history.Op, struck time.Duration) (rest []history.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range ops {
		key, _ := s.key(o)
		gone, ok := s.deleted[key]
		if o.Kind == history.Look && o.Outcome == history.OK && ok && gone >= struck && o.Call >= struck {
			continue
		}
		rest = append(rest, o)
	}
	return rest
}
