package watcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	perStream = 512 // watches on one stream

	// fresh is for how long a token that was just fetched is taken as good for a refusal of permission: a refusal
	// under an older one may be due to the token.
	fresh = 10 * time.Second
)

// A Hub carries the watches of one cluster's connection. It is safe for use by several goroutines, which may hold
// locks of their own: no method but Close waits for anything, and Watch calls a function only on a closed Hub.
type Hub struct {
	cluster *cluster.Cluster
	ctx     context.Context // of all streams; cancelled by Close
	cancelf context.CancelFunc
	running sync.WaitGroup // the streams' loops

	mu      sync.Mutex // never held while a function is called, nor across a request or channel operation
	closed  bool
	streams []*stream           // those that take watches
	token   string              // the newest that a stream was opened with
	since   time.Time           // when it was first seen
	trouble map[*Watch]*trouble // of watches that were refused
	keys    map[string]*Watch   // of all changes of one key, which others may ride on
	moves   uint64
}

// trouble is what a server's refusals of one watch amount to.
type trouble struct {
	refusals int // close together
	last     time.Time
}

// New returns a Hub without watches, which has no stream and no goroutine. Close it before c.
func New(c *cluster.Cluster) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{cluster: c, ctx: ctx, cancelf: cancel, trouble: map[*Watch]*trouble{}, keys: map[string]*Watch{}}
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
// fn is called by one goroutine at a time. It must not block, for it holds up the other watches of its
// stream, nor call Hub.Close. It may be called before Watch returns; on a closed Hub that is done by Watch itself, so
// locks that fn takes must not be held then. fn must not be nil. Watch itself sends nothing and does not wait.
func (h *Hub) Watch(key, end string, from int64, fn func(Update)) *Watch {
	return h.watch(newSpan(key, end), from, fn)
}

// WatchDeletion is Watch of one key, for its deletions only: puts are not told, and cost the server no message. An event
// has the value that was deleted, unless that is compacted already. Where this Hub watches all changes of
// the key too, the two may share one creation; a value is told then only if it was put meanwhile.
func (h *Hub) WatchDeletion(key string, from int64, fn func(Update)) *Watch {
	sp := newSpan(key, "")
	sp.deletions = true
	return h.watch(sp, from, fn)
}

func (h *Hub) watch(sp span, from int64, fn func(Update)) *Watch {
	if fn == nil {
		panic("watcher: nil function")
	}
	w := &Watch{hub: h, fn: fn, span: sp, next: max(from, 1)}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		w.last(Update{Err: cluster.ErrClosed})
		return w
	}
	s := h.carrierHome(w)
	if s != nil {
		s.add(w)
	} else {
		s = h.place(w, nil)
	}
	h.offer(w)
	h.mu.Unlock()
	s.nudge()
	return w
}

// Stats is how much a Hub carries.
type Stats struct {
	Watches int    // not over
	Streams int    // open, or being opened
	Moves   uint64 // how often a stream was lost and its watches resumed
}

// Stats returns how much the Hub carries now.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := Stats{Streams: len(h.streams), Moves: h.moves}
	for _, s := range h.streams {
		st.Watches += s.load
	}
	return st
}

// place gives w to a stream with room that ok (nil: any) accepts, or to a new one. Caller holds mu and
// nudges the stream afterwards; the Hub is not closed.
func (h *Hub) place(w *Watch, ok func(*stream) bool) *stream {
	var s *stream
	for _, t := range h.streams {
		if t.load-t.riders < perStream && (ok == nil || ok(t)) {
			s = t
			break
		}
	}
	if s == nil {
		s = newStream(h)
		h.streams = append(h.streams, s)
		h.running.Add(1)
		go s.run() // ends when it has no watches for a while, or the Hub or the cluster ended; Close waits for it
	}
	s.add(w)
	return s
}

// add gives w to s. Caller holds mu and nudges s afterwards.
func (s *stream) add(w *Watch) {
	w.home, w.counted = s, true
	s.load++
	s.added = append(s.added, w)
}

// cancel takes w, which is stopped, off its stream: at once, or with others a moment later if that costs the server
// little meanwhile. A watch of a key's deletion, and one that such rode on, has nothing more to say when the key
// is gone; and a message sent alone costs both ends several times as much as one of many.
func (h *Hub) cancel(w *Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leave(w) {
		return
	}
	s := w.home
	s.dropped = append(s.dropped, w)
	switch {
	case !w.span.deletions && !w.carried:
		s.nudge()
	case !s.sweeps:
		s.sweeps = true
		s.sweep.Reset(sweepAfter)
	}
}

// leave takes w out of the count; false: it was out already. Caller holds mu.
func (h *Hub) leave(w *Watch) bool {
	if !w.counted {
		return false
	}
	w.counted = false
	w.home.load--
	delete(h.trouble, w)
	h.withdraw(w)
	return true
}

// elsewhere gives w, which left the loop of from, to another stream, so that another member is asked and, where
// permission was refused, one that was opened with a fresh token. False: the Hub is closed.
func (h *Hub) elsewhere(w *Watch, from *stream, denied bool) bool {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	if !w.counted { // cancelled meanwhile
		h.mu.Unlock()
		return true
	}
	w.home.load--
	now, before := time.Now(), len(h.streams)
	s := h.place(w, func(t *stream) bool {
		return t != from && (!denied || t.token == h.token && h.isFresh(t.token, now))
	})
	if len(h.streams) > before {
		s.avoid = from.link.member
	}
	h.mu.Unlock()
	s.nudge()
	return true
}

// retire takes s out of the streams that take watches; false: it has some.
func (h *Hub) retire(s *stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.load > 0 || len(s.added) > 0 {
		return false
	}
	h.forget(s)
	return true
}

// forget takes s out of the streams. Caller holds mu.
func (h *Hub) forget(s *stream) {
	s.gone = true
	h.streams = slices.DeleteFunc(h.streams, func(t *stream) bool { return t == s })
}

// saw notes the token that s was opened with.
func (h *Hub) saw(s *stream, token string) {
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

// refused counts a refusal of w by a stream opened with token. It returns how many there were close together, and
// whether the token is fresh.
func (h *Hub) refused(w *Watch, token string) (n int, isFresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	t := h.trouble[w]
	if t == nil || now.Sub(t.last) > fresh {
		t = &trouble{}
		if w.counted {
			h.trouble[w] = t
		}
	}
	t.refusals++
	t.last = now
	return t.refusals, h.isFresh(token, now)
}
