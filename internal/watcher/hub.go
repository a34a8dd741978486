package watcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	perStream = 512 // topics on one stream

	// fresh is for how long a token that was just fetched is taken as good for a refusal of permission: a refusal
	// under an older one may be due to the token.
	fresh = 10 * time.Second
)

// A Hub carries the watches of one cluster's connection. It is safe for use by several goroutines, which may hold
// locks of their own: no method but Close waits for anything.
type Hub struct {
	cluster *cluster.Cluster
	ctx     context.Context // of all streams; cancelled by Close
	cancelf context.CancelFunc
	running sync.WaitGroup // the streams' loops

	mu      sync.Mutex // never held while a function is called, nor across a request or channel operation
	closed  bool
	streams []*stream // those that take topics, with their tables
	topics  index
	watches int       // neither cancelled nor ended
	token   string    // the newest that a stream was opened with
	since   time.Time // when it was first observed
	moves   uint64
}

// refusals are a server's refusals of one topic.
type refusals struct {
	count   int // close together
	last    time.Time
	backoff backoff.Backoff
}

// New returns a Hub without watches, which has no stream and no goroutine. Close it before c.
func New(c *cluster.Cluster) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{cluster: c, ctx: ctx, cancelf: cancel, topics: index{}}
}

// Close ends all watches, with an Update.Err that matches cluster.ErrClosed, and all streams, and
// returns when the Hub's goroutines are gone. It must not be called from a watch's function. It can be called again.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancelf()
	h.running.Wait()
}

// Watch calls fn with all changes of the keys in [key, end) from revision from on (below 1: from 1), until the watch
// ends. An empty end means key alone; "\x00" means all keys from key on. An empty key is the smallest one.
//
// fn is called by one goroutine at a time. It must not block, because it holds up the other watches of its
// stream, nor call Hub.Close. It may be called before Watch returns; on a closed Hub, and for a range that is empty or too
// long, that is done by Watch itself, so locks that fn takes must not be held then. fn must not be nil. Watch itself
// sends nothing and does not wait.
func (h *Hub) Watch(key, end string, from int64, fn func(Update)) *Watch {
	return h.watch(newSpan(key, end), &Watch{hub: h, fn: fn, from: max(from, 1)})
}

// WatchDeletion is Watch of one key, for its deletions only: puts are not delivered, and cost the server no message. An event
// has the value that was deleted, unless that is compacted already. Where this Hub watches all changes of
// the key too, the two may share one creation; a value is delivered then only if it was put meanwhile.
func (h *Hub) WatchDeletion(key string, from int64, fn func(Update)) *Watch {
	return h.watch(newSpan(key, ""), &Watch{hub: h, fn: fn, from: max(from, 1), deletions: true})
}

// WatchDeletions is WatchDeletion of the keys in [key, end), with no values that can be relied on.
func (h *Hub) WatchDeletions(key, end string, from int64, fn func(Update)) *Watch {
	return h.watch(newSpan(key, end), &Watch{hub: h, fn: fn, from: max(from, 1), deletions: true})
}

func (h *Hub) watch(sp span, w *Watch) *Watch {
	if w.fn == nil {
		panic("watcher: nil function")
	}
	err := sp.check()
	h.mu.Lock()
	if h.closed {
		err = cluster.ErrClosed
	}
	if err != nil {
		h.mu.Unlock()
		w.topic = &topic{span: sp}
		w.last(Update{Err: err})
		return w
	}
	w.counted = true
	h.watches++
	if t := h.topics.find(sp, w); t != nil {
		t.subscribe(w) // costs no message
		h.mu.Unlock()
		return w
	}
	t := &topic{span: sp, next: 1}
	t.subscribe(w)
	h.topics.offer(t)
	s := h.assign(t, nil)
	h.mu.Unlock()
	s.nudge()
	return w
}

// Stats is how much a Hub carries.
type Stats struct {
	Watches int    // not ended
	Streams int    // open, or being opened
	Moves   uint64 // how often a stream was lost and its watches resumed
}

// Stats returns how much the Hub carries now.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{Watches: h.watches, Streams: len(h.streams), Moves: h.moves}
}

// assign gives t, which is in no table, to a stream with room that ok (nil: any) accepts, or to a new one. Caller holds mu and
// nudges the stream afterwards; the Hub is not closed.
func (h *Hub) assign(t *topic, ok func(*stream) bool) *stream {
	i := slices.IndexFunc(h.streams, func(s *stream) bool {
		return s.table.size < perStream && (ok == nil || ok(s))
	})
	if i < 0 {
		i = len(h.streams)
		s := newStream(h)
		h.streams = append(h.streams, s)
		h.running.Add(1)
		go s.run() // ends when it has no topics for a while, or the Hub or the cluster ended; Close waits for it
	}
	s := h.streams[i]
	t.home = s
	s.table.add(t)
	return s
}

// cancel unsubscribes w, which is stopped. A creation to which nobody subscribes any more is cancelled a moment
// later, with others: a message sent alone costs both ends several times as much as one of many.
func (h *Hub) cancel(w *Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leave(w) {
		return
	}
	s := w.topic.home
	if s.table.unsubscribe(w) {
		s.sweepLater()
	} else if s.table.size == 0 {
		s.nudge() // it may have nothing to wait for
	}
}

// leave takes w out of the count; false: it was out already. Caller holds mu.
func (h *Hub) leave(w *Watch) bool {
	if !w.counted {
		return false
	}
	w.counted = false
	h.watches--
	return true
}

// elsewhere gives a topic of from, which was refused, to another stream, so that another member is queried and, where
// permission was refused, one that was opened with a fresh token. Caller holds mu.
func (h *Hub) elsewhere(p postponed, from *stream, now time.Time) {
	if h.closed {
		from.table.add(p.topic) // which ends soon
		return
	}
	before := len(h.streams)
	s := h.assign(p.topic, func(s *stream) bool {
		return s != from && (!p.denied || s.token == h.token && h.isFresh(s.token, now))
	})
	if len(h.streams) > before {
		s.avoid = from.link.member
	}
	s.nudge()
}

// retire takes s out of the streams that take topics; false: it has some. Caller holds mu.
func (h *Hub) retire(s *stream) bool {
	if s.table.size > 0 {
		return false
	}
	h.forget(s)
	return true
}

// forget takes s out of the streams. Caller holds mu.
func (h *Hub) forget(s *stream) {
	h.streams = slices.DeleteFunc(h.streams, func(t *stream) bool { return t == s })
}

// opened notes the token that s was opened with.
func (h *Hub) opened(s *stream, token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.token = token
	if h.since.IsZero() || token != h.token {
		h.token, h.since = token, time.Now()
	}
}

// isFresh reports whether a refusal of permission under token is to be believed. Caller holds mu.
func (h *Hub) isFresh(token string, now time.Time) bool {
	return token == "" || token == h.token && now.Sub(h.since) < fresh
}

// refused counts a refusal of t at now. It returns how many there were close together. Caller holds mu.
func (t *topic) refused(now time.Time) int {
	if t.refusals == nil || now.Sub(t.refusals.last) > fresh {
		t.refusals = &refusals{backoff: newBackoff()}
	}
	t.refusals.count++
	t.refusals.last = now
	return t.refusals.count
}
