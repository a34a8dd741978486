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
	perStream = 512 // watches on one stream

	// fresh is how long after a token was fetched a refusal of permission is not blamed on the token. A
	// refusal under an older token may be due to the token.
	fresh = 10 * time.Second
)

// A Hub carries the watches of one connection to a cluster. It is safe for concurrent use, even by
// callers that hold locks, because only Close waits for anything.
type Hub struct {
	cluster *cluster.Cluster
	ctx     context.Context // of all streams; cancelled by Close
	cancelf context.CancelFunc
	running sync.WaitGroup // the streams' loops

	mu      sync.Mutex // never held while a function is called, nor across a request or channel operation
	closed  bool
	streams []*stream // those that accept watches, with their tables
	token   string    // the newest with which a stream was opened
	since   time.Time // when it was first observed
	moves   uint64
}

// refusals are a server's refusals of one watch.
type refusals struct {
	count   int // how many came close together
	last    time.Time
	backoff backoff.Backoff
}

// New returns a Hub without watches, which has no stream and no goroutine. Close it before c.
func New(c *cluster.Cluster) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{cluster: c, ctx: ctx, cancelf: cancel}
}

// Close ends all watches, with an Update.Err that matches cluster.ErrClosed, and all streams, and
// returns when the Hub's goroutines are gone. It must not be called from a watch's function. It can be
// called again.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancelf()
	h.running.Wait()
}

// Watch calls fn with all changes of the keys in [key, end), starting at revision from, or at 1 if
// from is below 1, until the watch ends. An empty end means key alone; "\x00" means key and all
// keys after it. An empty key is the smallest one.
//
// fn is called by one goroutine at a time. It must not block, because that delays the other watches of
// the stream, and it must not call Hub.Close. It may be called before Watch returns. On a closed Hub,
// and for a range that is empty or too long, Watch itself calls it, so the caller must not hold locks
// that fn takes. fn must not be nil. Watch itself sends nothing and does not wait.
func (h *Hub) Watch(key, end string, from int64, fn func(Update)) *Watch {
	return h.watch(&Watch{hub: h, fn: fn, span: newSpan(key, end), next: max(from, 1)})
}

// WatchNow is Watch starting at the present revision when a server creates the watch, so that etcd
// serves it at once. Update.Created says which revisions it may have missed. Events below revision from
// are not delivered.
func (h *Hub) WatchNow(key, end string, from int64, fn func(Update)) *Watch {
	return h.watch(&Watch{hub: h, fn: fn, span: newSpan(key, end), next: max(from, 1), now: true})
}

// WatchDeletionsNow is WatchNow for deletions only: puts are not delivered, and cost the server
// no message.
func (h *Hub) WatchDeletionsNow(key, end string, from int64, fn func(Update)) *Watch {
	return h.watch(&Watch{hub: h, fn: fn, span: newSpan(key, end), next: max(from, 1), now: true, deletions: true})
}

func (h *Hub) watch(w *Watch) *Watch {
	if w.fn == nil {
		panic("watcher: nil function")
	}
	err := w.span.check()
	h.mu.Lock()
	if h.closed {
		err = cluster.ErrClosed
	}
	if err != nil {
		h.mu.Unlock()
		w.call(Update{Err: err})
		return w
	}
	w.wanted = true
	s := h.assign(w, nil)
	h.mu.Unlock()
	s.nudge()
	return w
}

// Stats are the numbers of a Hub.
type Stats struct {
	Watches int    // how many have not ended
	Streams int    // how many are open, or being opened
	Moves   uint64 // how often a stream was lost and its watches resumed
}

// Stats returns the Hub's current numbers.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	stats := Stats{Streams: len(h.streams), Moves: h.moves}
	for _, s := range h.streams {
		stats.Watches += s.table.wanted()
	}
	return stats
}

// assign gives w, which is in no table, to a stream with room that ok accepts, or to a new one. A nil
// ok accepts every stream. The caller holds mu, and nudges the stream afterwards. The Hub must not be
// closed.
func (h *Hub) assign(w *Watch, ok func(*stream) bool) *stream {
	i := slices.IndexFunc(h.streams, func(s *stream) bool {
		return s.table.size < perStream && (ok == nil || ok(s))
	})
	if i < 0 {
		i = len(h.streams)
		s := newStream(h)
		h.streams = append(h.streams, s)
		h.running.Add(1)
		go s.run() // ends when it has had no watches for a while, or with the Hub or the cluster; Close waits for it
	}
	s := h.streams[i]
	w.home = s
	s.table.add(w)
	return s
}

// elsewhere gives a watch that was refused on from to another stream, so that another member is
// queried. If permission was refused, the other stream is one that was opened with a fresh token. The
// caller holds mu.
func (h *Hub) elsewhere(p postponed, from *stream, now time.Time) {
	if h.closed {
		from.table.add(p.watch) // from ends soon
		return
	}
	before := len(h.streams)
	s := h.assign(p.watch, func(s *stream) bool {
		return s != from && (!p.denied || s.token == h.token && h.isFresh(s.token, now))
	})
	if len(h.streams) > before {
		s.avoid = from.link.member
	}
	s.nudge()
}

// retire removes s from the streams that accept watches, unless s has watches, and reports whether it
// did. The caller holds mu.
func (h *Hub) retire(s *stream) bool {
	if s.table.size > 0 {
		return false
	}
	h.forget(s)
	return true
}

// forget removes s from the streams. The caller holds mu.
func (h *Hub) forget(s *stream) {
	h.streams = slices.DeleteFunc(h.streams, func(t *stream) bool { return t == s })
}

// opened records the token with which s was opened.
func (h *Hub) opened(s *stream, token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.token = token
	if h.since.IsZero() || token != h.token {
		h.token, h.since = token, time.Now()
	}
}

// isFresh reports whether a refusal of permission under token counts. The caller holds mu.
func (h *Hub) isFresh(token string, now time.Time) bool {
	return token == "" || token == h.token && now.Sub(h.since) < fresh
}

// refused counts a refusal of w at now, and returns how many came close together. The caller holds mu.
func (w *Watch) refused(now time.Time) int {
	if w.refusals == nil || now.Sub(w.refusals.last) > fresh {
		w.refusals = &refusals{backoff: backoff.Request()}
	}
	w.refusals.count++
	w.refusals.last = now
	return w.refusals.count
}
