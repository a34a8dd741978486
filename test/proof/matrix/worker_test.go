package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// workerEnv makes a process of the test binary a worker of the soak: its number
// and the cluster's endpoints.
const workerEnv = "PAWL_MATRIX_WORKER"

// order is a line that a worker reads: a round to take part in, or its end.
type order struct {
	Name string `json:"name"` // of the lock; "" if the round has ended
	TTL  time.Duration
	Sets string // the address of the sets' storage
	Full full   // of a round at full rate
}

// full is how many take part at full rate; the zero value: none do.
type full struct {
	Names    int // that they want
	Sessions int // in each process
	Each     int // who use one session
}

// saying is a line that a worker writes: an operation, a loss, or that the round has ended for
// it and its sessions are closed, and what it sent in that round.
type saying struct {
	Op   *history.Op
	Lost string // a session's cause
	Sent sent
}

// holder is a Held or a Term.
type holder interface {
	Token() fencing.Token
	Err() error
}

// guards are those of all that h holds.
func guards(h holder) []kv.Guard {
	if h, ok := h.(*lock.Held); ok {
		return h.Guards()
	}
	return []kv.Guard{h.(*elect.Term).Guard()}
}

// want is a name, and how it is wanted: alone, shared, or as a semaphore with a limit.
type want struct {
	name   string
	shared bool
	limit  int // of a semaphore; 0 if it is none
	slot   int // of a semaphore, the slot that it has, from 1
}

// worker is a process that takes locks and terms, works under them, and says
// what it learnt.
type worker struct {
	number int
	client *pawl.Client
	rec    *history.Recorder
	tally  tally

	mu  sync.Mutex
	out *json.Encoder
}

// work is a worker's life; it ends with its standard input.
func work(role string) int {
	number, endpoints, _ := strings.Cut(role, " ")
	w := &worker{rec: history.NewRecorder(history.Clock), out: json.NewEncoder(os.Stdout)}
	_, _ = fmt.Sscan(number, &w.number)
	var err error
	for w.client == nil {
		ctx, cancel := context.WithTimeout(context.Background(), recovery)
		w.client, err = pawl.Dial(ctx, pawl.Config{Endpoints: strings.Split(endpoints, ","), SyncEvery: time.Second, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(w.tally.count)}})
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
	}
	defer func() { _ = w.client.Close() }()
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o order
		if err := json.Unmarshal(orders.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			return 1
		}
		ended := make(chan struct{})
		var round sync.WaitGroup
		for i := range o.Full.Sessions {
			round.Go(func() { w.round(o, ended, quick, 10_000*(w.number+1)+100*i) }) // ends after ended
		}
		if o.Full.Sessions == 0 {
			round.Go(func() { w.round(o, ended, locks, 2*w.number) })   // ends after ended
			round.Go(func() { w.round(o, ended, terms, 2*w.number+1) }) // the same
		}
		if !orders.Scan() {
			return 0
		}
		close(ended)
		round.Wait()
		w.say(saying{Sent: w.tally.take()})
	}
	return 0
}

func (w *worker) say(s saying) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(s)
}

// took is one way of taking part.
type took struct {
	choose  func(o order) []want
	work    func(c *client, h holder, of want)                                                                    // under one of the names
	acquire func(ctx context.Context, s *pawl.Session, wants []want) (holder, func(context.Context) error, error) // and how to give back
}

// locks takes a name, or another, or both at once, shared or not, or a slot of a third under
// one limit or another.
var locks = took{
	choose: func(o order) (wants []want) {
		n := rand.N(8)
		if n > 5 {
			return []want{{name: o.Name + "-slots", limit: 1 + rand.N(2)}}
		}
		if n > 0 {
			wants = append(wants, want{name: o.Name, shared: rand.N(5) < 2})
		}
		if n < 3 {
			wants = append(wants, want{name: o.Name + "-second", shared: rand.N(5) < 2})
		}
		return wants
	},
	work:    (*client).slowly,
	acquire: acquireAny,
}

// quick takes one of very many names, or a few of them at once, of which a third are wanted
// by many and one in five is a semaphore, and updates what it guards.
var quick = took{
	choose: func(o order) (wants []want) {
		n := rand.N(o.Full.Names)
		if rand.N(3) == 0 {
			n = rand.N(1 + o.Full.Names/20)
		}
		if n%5 == 4 {
			return []want{{name: fmt.Sprint(o.Name, "-", n), limit: 1 + rand.N(3)}}
		}
		for i := range []int{1, 1, 1, 1, 2, 3}[rand.N(6)] {
			if of := (n + i) % o.Full.Names; of%5 != 4 {
				wants = append(wants, want{name: fmt.Sprint(o.Name, "-", of), shared: rand.N(6) == 0})
			}
		}
		return wants
	},
	work: func(c *client, h holder, of want) {
		if of.shared {
			c.read(h, of, 0)
		} else {
			var late time.Duration
			if rand.N(3) == 0 { // a slow write: its process may be stopped before it is sent
				late = rand.N(200 * time.Millisecond)
			}
			c.add(h, of, "fenced", 0, late)
		}
	},
	acquire: acquireAny,
}

// acquireAny acquires what it wants, or tries to.
func acquireAny(ctx context.Context, s *pawl.Session, wants []want) (holder, func(context.Context) error, error) {
	try := rand.N(6) == 0
	switch {
	case len(wants) > 1:
		return acquireSet(ctx, s, wants, try)
	case wants[0].limit > 0:
		return acquireSlot(ctx, s, &wants[0], try)
	}
	m := lock.New(s, wants[0].name, lock.Options{})
	acquire := m.Acquire
	switch {
	case wants[0].shared && try:
		acquire = m.TryAcquireShared
	case wants[0].shared:
		acquire = m.AcquireShared
	case try:
		acquire = m.TryAcquire
	}
	h, err := acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return h, h.Release, nil
}

// acquireSlot acquires a slot of a semaphore, and notes which.
func acquireSlot(ctx context.Context, s *pawl.Session, w *want, try bool) (holder, func(context.Context) error, error) {
	m := lock.NewSemaphore(s, w.name, w.limit, lock.Options{})
	acquire := m.Acquire
	if try {
		acquire = m.TryAcquire
	}
	p, err := acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	w.slot = p.Slot() + 1
	return p, p.Release, nil
}

func acquireSet(ctx context.Context, s *pawl.Session, wants []want, try bool) (holder, func(context.Context) error, error) {
	var all []lock.Want
	for _, w := range wants {
		if w.shared {
			all = append(all, lock.Shared(w.name))
		} else {
			all = append(all, lock.Exclusive(w.name))
		}
	}
	m := lock.NewMulti(s, lock.Options{}, all...)
	acquire := m.Acquire
	if try {
		acquire = m.TryAcquire
	}
	h, err := acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return h, h.Release, nil
}

var terms = took{
	choose: func(o order) []want { return []want{{name: o.Name + "-election"}} },
	work:   (*client).slowly,
	acquire: func(ctx context.Context, s *pawl.Session, wants []want) (holder, func(context.Context) error, error) {
		t, err := elect.New(s, wants[0].name, elect.Options{}).Campaign(ctx, []byte("candidate"))
		if err != nil {
			return nil, nil, err
		}
		return t, t.Resign, nil
	},
}

// client is one goroutine of a worker's, in one round.
type client struct {
	w      *worker
	order  order
	number int
	wants  []want // this time
}

// round takes part until ended is closed.
func (w *worker) round(o order, ended <-chan struct{}, take took, number int) {
	c := &client{w: w, order: o, number: number, wants: take.choose(o)}
	hasEnded := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	for !hasEnded() {
		var s *pawl.Session
		c.record(history.Other, 0, patience, func(ctx context.Context, op *history.Op) {
			var err error
			s, err = w.client.NewSession(ctx, lease.Options{TTL: o.TTL})
			op.Outcome = outcome(err)
		})
		if s == nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		var users sync.WaitGroup
		for i := range max(1, o.Full.Each) {
			c := &client{w: w, order: o, number: number + i}
			users.Go(func() { // a few turns
				for turns := 3 + rand.N(20)*(1+o.Full.Each); turns > 0 && s.Err() == nil && !hasEnded() && c.turn(s, take); turns-- {
				}
			})
		}
		users.Wait()
		if err := s.Err(); err != nil {
			w.say(saying{Lost: causeOf(err)})
		}
		c.record(history.Other, 0, patience, func(ctx context.Context, op *history.Op) { op.Outcome = outcome(s.Close(ctx)) })
	}
}

// causeOf names a session's end.
func causeOf(err error) string {
	for name, cause := range map[string]error{
		"expired: our own clock": lease.ErrExpired, "revoked: the server's word": lease.ErrRevoked, "another cluster": pawl.ErrClusterChanged,
	} {
		if errors.Is(err, cause) {
			return name
		}
	}
	return err.Error()
}

// record makes a call with a new context and says what it learnt.
func (c *client) record(kind history.Kind, token fencing.Token, limit time.Duration, f func(ctx context.Context, o *history.Op)) {
	c.recordOf(c.wants, kind, token, limit, f)
}

// recordOf is record of a call for some of its names.
func (c *client) recordOf(wants []want, kind history.Kind, token fencing.Token, limit time.Duration, f func(ctx context.Context, o *history.Op)) {
	o := history.Op{Client: c.number, Kind: kind, Token: int64(token), Call: c.w.rec.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	f(ctx, &o)
	o.Return = c.w.rec.Now()
	cancel()
	c.say(wants, o)
}

// say says o, as an operation on each of wants.
func (c *client) say(wants []want, o history.Op) {
	for _, w := range wants {
		o.Name, o.Slot, o.Shared, o.Permits = w.name, w.slot, false, 0
		if o.Kind == history.Acquire {
			o.Shared, o.Permits = w.shared, w.limit
		}
		c.w.say(saying{Op: &o})
	}
}

// turn acquires, works, and releases. It returns false if the session's end has to release.
func (c *client) turn(s *pawl.Session, take took) bool {
	c.wants = take.choose(c.order)
	var h holder
	var giveBack func(context.Context) error
	c.record(history.Acquire, 0, 200*time.Millisecond+rand.N(8*time.Second), func(ctx context.Context, o *history.Op) {
		var err error
		if h, giveBack, err = take.acquire(ctx, s, c.wants); err != nil {
			o.Outcome, o.Err = history.Refused, err.Error()
			return
		}
		o.Outcome, o.Token = history.OK, int64(h.Token())
	})
	if giveBack == nil {
		return true
	}
	c.w.tally.acquired.Add(1)
	take.work(c, h, c.wants[rand.N(len(c.wants))])
	if rand.N(12*(1+c.order.Full.Each)) == 0 {
		return false
	}
	for range 20 {
		decided := false
		c.record(history.Release, h.Token(), patience, func(ctx context.Context, o *history.Op) {
			err := giveBack(ctx)
			o.Outcome = outcome(err)
			switch {
			case errors.Is(err, lock.ErrLost):
				o.Outcome, o.Err, decided = history.Refused, err.Error(), true
			case err != nil:
				o.Outcome, o.Err = history.Unknown, err.Error()
			default:
				decided = true
			}
		})
		if decided {
			break
		}
	}
	return true
}

// slowly does one of several things under a name, and takes its time.
func (c *client) slowly(h holder, of want) {
	switch n := rand.N(4); {
	case of.shared && n < 2:
		c.read(h, of, rand.N(200*time.Millisecond))
	case of.shared:
		c.lookFor(h, rand.N(300*time.Millisecond))
	case n == 0:
		c.guarded(h, of)
	case n == 1:
		c.add(h, of, "fenced", rand.N(400*time.Millisecond), 0)
	case n == 2:
		c.add(h, of, "unfenced", rand.N(2*time.Second), 0)
	default:
		c.lookFor(h, rand.N(300*time.Millisecond))
	}
}

// resource is what a name, or the slot of a semaphore, is to storage.
func (of want) resource() string {
	if of.slot > 0 {
		return keys.SlotResource(of.name, of.slot-1)
	}
	return of.name
}

// lookFor asks Err for so long.
func (c *client) lookFor(h holder, d time.Duration) {
	for end := c.w.rec.Now() + d; c.look(h) && c.w.rec.Now() < end; time.Sleep(5 * time.Millisecond) {
	}
}

func (c *client) look(h holder) bool {
	o := history.Op{Client: c.number, Kind: history.Look, Token: int64(h.Token()), Call: c.w.rec.Now()}
	err := h.Err()
	o.Return = c.w.rec.Now()
	if o.Outcome = history.OK; err != nil {
		o.Outcome, o.Err = history.Refused, err.Error()
	}
	c.say(c.wants, o)
	return err == nil
}

// guarded writes to etcd under the guards, what is of one name.
func (c *client) guarded(h holder, of want) {
	c.recordOf([]want{of}, history.Guarded, h.Token(), patience, func(ctx context.Context, o *history.Op) {
		_, err := c.w.client.KV().Txn(ctx, kv.Txn{
			Guards: guards(h),
			Then:   []kv.Op{kv.Put("data/"+of.name, fmt.Appendf(nil, "%d", h.Token()))},
		})
		switch {
		case err == nil:
			o.Outcome = history.OK
		case errors.Is(err, kv.ErrFenced):
			o.Outcome = history.Refused
		default:
			o.Outcome, o.Err = history.Unknown, err.Error()
		}
	})
}

// read reads the fenced set, which registers its token first, and calls Err for so long.
func (c *client) read(h holder, of want, wait time.Duration) {
	at := setAddress(c.order.Sets, "fenced", of.resource(), int64(h.Token()), 0) + "&shared=1"
	_, _ = c.storage(h, of, "fenced", func(ctx context.Context) ([]byte, int, error) { return exchange(ctx, "GET", at, "") })
	c.lookFor(h, wait)
}

var added atomic.Int64

// add reads a set, waits, looks whether it holds, and writes the set with one
// element more, so late.
func (c *client) add(h holder, of want, set string, wait, late time.Duration) {
	element := int64(c.w.number+1)*1_000_000_000 + added.Add(1)
	at := setAddress(c.order.Sets, set, of.resource(), int64(h.Token()), element)
	all, ok := c.storage(h, of, set, func(ctx context.Context) ([]byte, int, error) { return exchange(ctx, "GET", at, "") })
	if !ok {
		return
	}
	if c.lookFor(h, wait); !c.look(h) {
		return
	}
	time.Sleep(late)
	text := strings.TrimSpace(string(all) + fmt.Sprintf(" %d", element))
	_, _ = c.storage(h, of, set, func(ctx context.Context) ([]byte, int, error) { return exchange(ctx, "POST", at, text) })
}

// storage makes one request to a set.
func (c *client) storage(h holder, of want, set string, f func(ctx context.Context) ([]byte, int, error)) (body []byte, ok bool) {
	kind := history.Other
	if set == "fenced" {
		kind = history.Fenced
	}
	c.recordOf([]want{of}, kind, h.Token(), recovery, func(ctx context.Context, o *history.Op) {
		var status int
		var err error
		switch body, status, err = f(ctx); {
		case err != nil:
			o.Outcome, o.Err = history.Unknown, err.Error()
		case status == 200:
			o.Outcome, ok = history.OK, true
		default:
			o.Outcome = history.Refused
		}
	})
	return body, ok
}
