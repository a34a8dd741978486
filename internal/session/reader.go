package session

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// A Reader reads what dependents want, as renewals do, but at once. It is for dependents whose watches
// began at the present, and so may have missed something. It serves all sessions of a client. What
// gathers while its reads are under way shares the next one. It is safe for concurrent use.
type Reader struct {
	c *cluster.Cluster

	mu      sync.Mutex
	waiting []Dependent
	reading int // reads under way
	most    int // operations of one read
}

// NewReader makes the Reader of a client, which ends with c.
func NewReader(c *cluster.Cluster) *Reader { return &Reader{c: c, most: maxOps + 1} }

// readsAtOnce is how many reads are under way at most. There may be two, so that a member that is stuck
// does not hold up all.
const readsAtOnce = 2

// readBound is how long one member has to answer a read before another is queried.
const readBound = time.Second

// Read has what d wants read once, with a linearizable read that is sent after the call. It does not
// block. A dependent that has ended is left out. One whose keys the role may not read learns nothing.
func (r *Reader) Read(d Dependent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, d)
	if r.reading < readsAtOnce && r.c.Go(r.read) { // the goroutine ends when nothing waits, or with the Cluster
		r.reading++
	}
}

// read reads until nothing waits.
func (r *Reader) read() {
	pace := backoff.Request()
	for {
		part, most := r.take()
		if len(part) == 0 {
			return
		}
		err := r.readPart(part, most)
		switch {
		case err == nil:
			pace.Reset()
			continue
		case cluster.IsTooManyOps(err) && most > 1:
			most /= 2
		case cluster.IsFinal(err): // perhaps because of one of them; the renewals of that one say so
			for _, d := range part {
				if len(part) > 1 {
					_ = r.readPart([]Dependent{d}, most)
				}
			}
			continue
		case !backoff.Wait(pace.Next(), r.c.Ended(), nil):
			return
		}
		r.mu.Lock()
		r.most = min(r.most, most)
		r.waiting = append(r.waiting, part...)
		r.mu.Unlock()
	}
}

// take removes from the waiting dependents as many as need about as many operations as one read may
// have. If none waits, it returns none, and counts the calling goroutine as ended.
func (r *Reader) take() (part []Dependent, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), max(r.most/2, 1)) // a waiter reads its key and its predecessor's
	if n == 0 {
		r.reading--
	}
	part, r.waiting = r.waiting[:n], r.waiting[n:]
	return part, r.most
}

// readPart reads what the dependents in part want, and delivers it to them.
func (r *Reader) readPart(part []Dependent, most int) error {
	for _, read := range split(part, most) {
		if len(read.ops) == 0 {
			continue // all have ended
		}
		resp, err := r.c.Txn(context.Background(), cluster.Request{Op: "read positions", Repeat: cluster.Always, PerTry: readBound}, &pb.TxnRequest{Success: read.ops})
		if err != nil {
			return err
		}
		read.deliver(resp, 0)
	}
	return nil
}
