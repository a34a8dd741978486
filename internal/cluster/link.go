package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// link is a member's connection: the line in use, which is replaced when it turns mute and a
// new one to the same address is not.
//
// A line is examined when nothing was read for max(200 ms, three round trips) after something
// was sent, and a call or a message has no answer: a health call is sent on it, and on those of up to two other members. If it is still
// silent after as long again, a spare line is opened, and when another member or the spare has
// answered, the tries on the silent line are given up, and the streams that have not opened.
// Silence alone is no reason. When the
// spare has answered, it takes the line's place. Each member is examined by itself.
//
// Events of watches are no answers: a line that delivers them, and none of what is sent, is
// as silent as one that delivers nothing.
//
// A line that is heard may still have a try that gets no answer, because the leader to which
// the member forwarded it has died. So the member is asked about its leader meanwhile.
type link struct {
	c    *Cluster
	m    *Member
	line atomic.Pointer[line]
	trip atomic.Int64 // the usual duration of a health call

	wait func(d time.Duration, end, stop <-chan struct{}) bool // backoff.Wait

	addresses *addresses // of the member's name; nil if it has only one

	mu      sync.Mutex
	closed  bool
	spareAt time.Time     // no spare is opened before
	swapped time.Time     // when the line was last replaced
	gap     time.Duration // from that to the next
	tripAt  time.Time     // when the round trip was last measured
	termAt  time.Time     // when the member was last asked for its raft term
}

func newLink(c *Cluster, m *Member) (*link, error) {
	k := &link{c: c, m: m, wait: backoff.Wait, addresses: addressesOf(m.endpoint, &c.cfg)}
	l, err := k.newLine()
	if err != nil {
		return nil, err
	}
	k.line.Store(l)
	return k, nil
}

func (k *link) newLine() (*line, error) {
	return newLine(k.m.endpoint, &k.c.cfg, k.addresses, k.watch, func(err error) { k.c.Failed(k.m, err) })
}

// Invoke implements grpc.ClientConnInterface.
func (k *link) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	l := k.line.Load()
	l.begin()
	defer l.open.Add(-1)
	if t, ok := ctx.Value(tryKey{}).(*try); ok {
		l.enter(t)
		defer l.leave(t)
	}
	err := l.conn.Invoke(ctx, method, args, reply, opts...)
	if isAnswer(err) {
		l.answered()
	}
	return err
}

// NewStream implements grpc.ClientConnInterface. It waits for the connection, so until then it
// is given up as a try is.
func (k *link) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	l := k.line.Load()
	ctx, cancel := context.WithCancel(ctx)
	t := &try{cancel: cancel, began: time.Now()}
	l.begin()
	l.enter(t)
	stream, err := l.conn.NewStream(ctx, desc, method, opts...)
	l.leave(t)
	l.open.Add(-1)
	if why := t.why.Load(); why != nil && err != nil {
		err = *why
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &asking{ClientStream: stream, l: l}
	context.AfterFunc(stream.Context(), func() { s.settle(); cancel() }) // nothing is answered, after its end
	return s, nil
}

// GetState is the state of the line in use.
func (k *link) GetState() connectivity.State { return k.line.Load().conn.GetState() }

// ready reports whether the line in use is connected, and is not examined for its silence. One
// that is not connected begins to connect.
func (k *link) ready() bool {
	l := k.line.Load()
	switch l.conn.GetState() {
	case connectivity.Ready:
		return !l.silent.Load()
	case connectivity.Idle:
		l.conn.Connect()
	}
	return false
}

// Close closes the line, and ends its examination.
func (k *link) Close() error {
	k.mu.Lock()
	k.closed = true
	l := k.line.Load()
	k.mu.Unlock()
	return l.close()
}

// patience is how long the line may be silent.
func (k *link) patience() time.Duration { return max(patience, 3*time.Duration(k.trip.Load())) }

// watch begins to watch l until it has been heard.
func (k *link) watch(l *line) {
	k.c.spawn(func() { k.listen(l) }) // ends when l was heard, or with l
}

// exam is the examination of a silent line.
type exam struct {
	ctx    context.Context
	cancel context.CancelFunc
	others atomic.Bool // another member answered
	spare  *line       // the last that was opened
}

func (x *exam) end() {
	x.cancel()
	if x.spare != nil {
		_ = x.spare.close()
	}
}

func (k *link) listen(l *line) {
	var x *exam
	defer func() {
		if x != nil {
			x.end()
		}
	}()
	seen, silent := l.heard(), 0
	for {
		step := k.patience() / steps
		if !k.wait(step, k.c.life.Done(), l.done) {
			return
		}
		k.askTerm(l)
		if k.patience() > patience && k.due(&k.tripAt, tripEvery) { // it may have become near
			k.measure(l)
		}
		now, asked := l.heard(), l.asked.Load()
		if asked && !now.lifeSince(seen) {
			seen = now
			silent++
			if silent == steps && l.open.Load() == 0 { // what was sent was an acknowledgement
				l.asked.Store(false)
				l.due.Store(false)
				l.watched.Store(false)
				if l.open.Load() == 0 || !l.watched.CompareAndSwap(false, true) {
					return
				}
				l.due.Store(true)
				l.asked.Store(true) // a call has begun meanwhile, and its write may be the one that was just forgotten
				seen, silent = l.heard(), 0
				continue
			}
			if silent == steps {
				l.silent.Store(true)
				x = k.examine(l)
			}
			if silent >= 2*steps && k.doubt(l, x) {
				return
			}
			continue
		}
		seen, silent = now, 0
		if x != nil {
			l.silent.Store(false)
			x.end()
			x = nil
		}
		if l.busy() {
			continue
		}
		l.watched.Store(false)
		if !l.busy() || !l.watched.CompareAndSwap(false, true) {
			return
		}
	}
}

// askTerm asks the member for its raft term if a try has been under way for long, and gives
// up the tries that were sent in an earlier one, once the member knows its leader. The
// old leader may have lost them, and then they would get no answer.
func (k *link) askTerm(l *line) {
	now, every := time.Now(), max(overdue, k.patience())
	if !l.hasSince(now.Add(-overdue)) || !k.due(&k.termAt, every) {
		return
	}
	k.c.spawn(func() { // ends within every
		resp, err := k.c.status(k.c.life, k.m, k.c.creds.any(k.m), now.Add(every))
		if err != nil || resp.Leader == 0 || k.c.Check(k.m, resp.Header, 0, false) != nil {
			return
		}
		l.giveUp(&errElected, func(t *try) bool { return t.term != 0 && t.term < resp.Header.RaftTerm })
	})
}

// due reports whether what was last done at a time may be done again, and notes that it is. The line
// that was replaced may be looked at once more while the new one already is.
func (k *link) due(last *time.Time, every time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Sub(*last) < every {
		return false
	}
	*last = now
	return true
}

// measure makes a health call on l to learn the member's round trip. It takes no longer than
// the steps that passed meanwhile, so the time in which this process was stopped is none of it.
func (k *link) measure(l *line) {
	const step = patience / steps
	ctx, cancel := context.WithTimeout(k.c.life, probeTotal)
	sent, answered := time.Now(), make(chan struct{})
	var passed atomic.Int64
	counts := k.c.spawn(func() { // ends with the call
		for passed.Add(1); k.wait(step, ctx.Done(), answered); {
			passed.Add(1)
		}
	})
	asks := counts && k.c.spawn(func() { // ends within probeTotal
		defer cancel()
		defer close(answered)
		if l.health(ctx) {
			k.trip.Store(int64(min(time.Since(sent), time.Duration(passed.Load())*step)))
		}
	})
	if !asks {
		cancel()
	}
}

// examine sends health calls on l, and to up to two other members.
func (k *link) examine(l *line) *exam {
	x := new(exam)
	x.ctx, x.cancel = context.WithCancel(k.c.life)
	k.due(&k.tripAt, 0)
	k.measure(l)
	n := 0
	for _, o := range k.c.Members() {
		if o == k.m || n == 2 {
			continue
		}
		n++
		other := o.conn.line.Load()
		k.c.spawn(func() { // ends with x
			if other.health(x.ctx) {
				x.others.Store(true)
			}
		})
	}
	return x
}

// doubt acts on a line that is still silent, and reports whether it was replaced.
func (k *link) doubt(l *line, x *exam) bool {
	if spare := x.spare; spare != nil && spare.serves.Load() {
		x.spare = nil
		k.swap(l, spare, "it was silent, and a new one answers")
		return true
	}
	if x.others.Load() {
		k.c.Failed(k.m, errMute)
		l.giveUp(&errMute, everyTry)
	}
	if k.mayOpen() {
		l.blame()
		k.open(x)
	}
	return false
}

// mayOpen reports whether a spare may be opened now, and if so that none may be for a while.
func (k *link) mayOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Before(k.spareAt) {
		return false
	}
	k.spareAt = now.Add(max(minSwap, 2*k.patience())) // two for TLS, one for TCP, one for the call, and as many again
	return true
}

// open opens a spare line, in place of one that has not answered.
func (k *link) open(x *exam) {
	if x.spare != nil {
		x.spare.blame()
		_ = x.spare.close()
	}
	spare, err := k.newLine()
	if err != nil {
		return
	}
	spare.watched.Store(true) // nobody examines a spare
	x.spare = spare
	k.c.spawn(func() { // ends with x
		if spare.health(x.ctx) {
			spare.serves.Store(true)
		}
	})
}

// swap puts spare into the place of l, and closes l at once: its tries have an unknown outcome
// if they were sent, and its streams are opened again.
func (k *link) swap(l, spare *line, why string) {
	k.mu.Lock()
	now := time.Now()
	if now.Sub(k.swapped) > 2*maxSwap {
		k.gap = minSwap
	}
	k.swapped, k.spareAt, k.gap = now, now.Add(k.gap), min(2*k.gap, maxSwap)
	if k.closed || !k.line.CompareAndSwap(l, spare) {
		k.mu.Unlock()
		_ = spare.close()
		return
	}
	k.mu.Unlock()
	spare.watched.Store(false)
	if spare.busy() && spare.watched.CompareAndSwap(false, true) { // it was in use already
		k.watch(spare)
	}
	k.c.log.Warn("etcd connection replaced: "+why, "endpoint", k.m.Endpoint())
	l.giveUp(&errReplaced, everyTry)
	l.kill()
}

// move looks for another address of the member's name, because the one in use answers that it
// cannot serve.
func (k *link) move() {
	if !k.addresses.several() || !k.mayOpen() {
		return
	}
	l := k.line.Load()
	l.blame()
	spare, err := k.newLine()
	if err != nil {
		return
	}
	spare.watched.Store(true)  // nobody examines a spare
	asks := k.c.spawn(func() { // ends within probeTotal
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(k.c.life, k.c.creds.any(k.m).md), probeTotal)
		defer cancel()
		resp, err := pb.NewMaintenanceClient(spare.conn).Status(ctx, &pb.StatusRequest{})
		if err != nil && !IsTokenRefusal(err) || err == nil && (resp.Leader == 0 || resp.IsLearner) {
			spare.blame()
			_ = spare.close()
			return
		}
		k.swap(l, spare, "its member cannot serve, and that of another address can")
	})
	if !asks {
		_ = spare.close()
	}
}
