package session

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// Looks reads what dependents want, as renewals do, but at once. It is for dependents whose watches
// began at the present, and so may have missed something. It serves all sessions of a client. What
// gathers while its reads are under way shares the next one. It is safe for concurrent use.
type Looks struct {
	c *cluster.Cluster

	mu      sync.Mutex
	waiting []Dependent
	reading int // reads under way
	most    int // operations of one read
}

// NewLooks makes the Looks of a client, which end with c.
func NewLooks(c *cluster.Cluster) *Looks { return &Looks{c: c, most: maxOps + 1} }

// looksAtOnce is how many reads are under way at most. There may be two, so that a member that is stuck
// does not hold up all.
const looksAtOnce = 2

// lookBound is how long one member has to answer a read before another is queried.
const lookBound = time.Second

// Look has what d wants read once, with a linearizable read that is sent after the call. It does not
// block. A dependent that has ended is left out. One whose keys the role may not read learns nothing.
func (l *Looks) Look(d Dependent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, d)
	if l.reading < looksAtOnce && l.c.Go(l.read) { // the goroutine ends when nothing waits, or with the Cluster
		l.reading++
	}
}

// read reads until nothing waits.
func (l *Looks) read() {
	pace := backoff.Request()
	for {
		part, most := l.take()
		if len(part) == 0 {
			return
		}
		err := l.look(part, most)
		switch {
		case err == nil:
			pace.Reset()
			continue
		case cluster.IsTooManyOps(err) && most > 1:
			most /= 2
		case cluster.IsFinal(err): // perhaps because of one of them; the renewals of that one say so
			for _, d := range part {
				if len(part) > 1 {
					_ = l.look([]Dependent{d}, most)
				}
			}
			continue
		case !backoff.Wait(pace.Next(), l.c.Ended(), nil):
			return
		}
		l.mu.Lock()
		l.most = min(l.most, most)
		l.waiting = append(l.waiting, part...)
		l.mu.Unlock()
	}
}

// take removes from the waiting dependents as many as need about as many operations as one read may
// have. If none waits, it returns none, and counts the calling goroutine as ended.
func (l *Looks) take() (part []Dependent, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), max(l.most/2, 1)) // a waiter reads its key and its predecessor's
	if n == 0 {
		l.reading--
	}
	part, l.waiting = l.waiting[:n], l.waiting[n:]
	return part, l.most
}

// look reads what the dependents in part want, and delivers it to them.
func (l *Looks) look(part []Dependent, most int) error {
	for _, read := range split(part, most) {
		if len(read.ops) == 0 {
			continue // all have ended
		}
		resp, err := l.c.Txn(context.Background(), cluster.Request{Op: "read positions", Repeat: cluster.Always, PerTry: lookBound}, &pb.TxnRequest{Success: read.ops})
		if err != nil {
			return err
		}
		read.deliver(resp, 0)
	}
	return nil
}
