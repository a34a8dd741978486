package watcher

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// maxUnanswered bounds the bytes of several unanswered creations on one stream. It is half of what gRPC
// buffers. With it, 500 creations of usual keys take two or three round trips.
const maxUnanswered = 32 << 10

// perCreation is the size of a creation without its keys.
const perCreation = 24

// table is the watches of one stream, and what is under way for each. It is a pure state machine. Its
// input is the server's answers, new watches, cancels and the end of the link. Its output is requests
// to send and calls to make. It has no lock, no clock and no gRPC. enumerate_test.go enumerates every
// interleaving of a watch or two with a server that writes, compacts, refuses and loses streams.
//
// Every watch is in queue, in requests, in live or in later, according to its stage. Watches that are
// no longer wanted are only in requests.
type table struct {
	size int // how many watches there are

	queue    []*Watch         // those to be created, in this order
	requests []request        // the unanswered creations, in the order in which they were sent
	bytes    int              // of requests
	live     map[int64]*Watch // by the ID on the current link
	later    []postponed

	unwanted []int64 // IDs of creations to be cancelled by the next sweep
	cancels  []int64 // to be sent
	lastID   int64   // an ID is used only once on a link

	calls []delivery // to be made
}

// request is an unanswered creation. If watch is nil, it is an echo.
type request struct {
	id    int64
	watch *Watch
	bytes int
}

// postponed is a watch that was refused.
type postponed struct {
	watch  *Watch
	until  time.Time
	denied bool
}

// delivery is a call of a watch's function.
type delivery struct {
	w *Watch
	u Update
}

func newTable() table { return table{live: map[int64]*Watch{}} }

// add adds a watch, which is in no table.
func (tb *table) add(w *Watch) {
	tb.size++
	tb.enqueue(w)
}

func (tb *table) enqueue(w *Watch) {
	w.stage, w.id = queued, 0
	tb.queue = append(tb.queue, w)
}

// remove removes a watch that is in no list.
func (tb *table) remove(w *Watch) {
	w.stage, w.id = nowhere, 0
	tb.size--
}

// leave removes w, which is no longer wanted. It returns true if the creation has to be cancelled
// later, together with others.
func (tb *table) leave(w *Watch) (later bool) {
	switch w.stage {
	case queued:
		tb.queue = slices.DeleteFunc(tb.queue, func(q *Watch) bool { return q == w })
	case delayed:
		tb.later = slices.DeleteFunc(tb.later, func(p postponed) bool { return p.watch == w })
	case living:
		tb.unwanted = append(tb.unwanted, w.id)
		delete(tb.live, w.id)
		later = true
	default: // requested; if the creation is acknowledged, a cancel follows
		return false
	}
	tb.remove(w)
	return later
}

// wanted is how many watches have neither been cancelled nor ended.
func (tb *table) wanted() int {
	n := tb.size
	for _, a := range tb.requests {
		if a.watch != nil && !a.watch.wanted {
			n--
		}
	}
	return n
}

// sweep cancels the creations of watches that left.
func (tb *table) sweep() {
	tb.cancels = append(tb.cancels, tb.unwanted...)
	tb.unwanted = tb.unwanted[:0]
}

// send returns the requests to send now: creations, which are then unanswered, and cancels.
func (tb *table) send() (out []*pb.WatchRequest) {
	n := 0
	for _, w := range tb.queue {
		size := len(w.span.key) + len(w.span.end) + perCreation
		if len(tb.requests) > 0 && tb.bytes+size > maxUnanswered {
			break
		}
		n++
		tb.lastID++
		w.stage, w.id = requested, tb.lastID
		tb.requests = append(tb.requests, request{tb.lastID, w, size})
		tb.bytes += size
		out = append(out, w.creation())
	}
	tb.queue = slices.Delete(tb.queue, 0, n)
	for _, id := range tb.cancels {
		out = append(out, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
	}
	tb.cancels = tb.cancels[:0]
	return out
}

// echo returns a creation that etcd refuses at once and without side effects, because its range
// is empty or for lack of permission or of a valid token.
func (tb *table) echo() *pb.WatchRequest {
	tb.lastID++
	tb.requests = append(tb.requests, request{id: tb.lastID})
	return creation(&pb.WatchCreateRequest{Key: echoKey, RangeEnd: echoKey, StartRevision: 1, WatchId: tb.lastID})
}

// echoKey is both ends of an echo's empty range.
var echoKey = []byte("pawl")

func creation(r *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// lost puts the watches of a link that ended back into the queue, in the order of their
// creation, and removes those that are no longer wanted.
func (tb *table) lost() {
	var watches []*Watch
	for _, id := range slices.Sorted(maps.Keys(tb.live)) {
		watches = append(watches, tb.live[id])
	}
	for _, a := range tb.requests {
		if a.watch != nil {
			watches = append(watches, a.watch)
		}
	}
	clear(tb.live)
	tb.requests, tb.bytes, tb.unwanted, tb.cancels, tb.lastID = nil, 0, nil, nil, 0
	for _, w := range watches {
		if w.wanted {
			tb.enqueue(w)
		} else {
			tb.remove(w)
		}
	}
}

// end ends w, which is in no list, with u.
func (tb *table) end(w *Watch, u Update) {
	tb.remove(w)
	w.wanted = false
	tb.calls = append(tb.calls, delivery{w, u})
}

// endAll ends all watches with u.
func (tb *table) endAll(u Update) {
	tb.lost()
	for _, p := range tb.later {
		tb.enqueue(p.watch)
	}
	for _, w := range tb.queue {
		tb.end(w, u)
	}
	tb.queue, tb.later = nil, nil
}

// takeCalls returns the calls to make now.
func (tb *table) takeCalls() []delivery {
	calls := tb.calls
	tb.calls = nil
	return calls
}

// postpone has w, which is in no list, created again at the time until.
func (tb *table) postpone(w *Watch, until time.Time, denied bool) {
	w.stage = delayed
	tb.later = append(tb.later, postponed{w, until, denied})
}

// take returns the watches whose delay has passed at now, which are then in no table, and when
// the next delay passes.
func (tb *table) take(now time.Time) (due []postponed, next time.Time) {
	tb.later = slices.DeleteFunc(tb.later, func(p postponed) bool {
		if now.Before(p.until) {
			next = sooner(next, p.until)
			return false
		}
		p.watch.stage = nowhere
		tb.size--
		due = append(due, p)
		return true
	})
	return due, next
}
