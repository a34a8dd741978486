package locks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// Config configures a Service.
type Config struct {
	Table  table.Config
	Owner  string // of pawld's own session
	Etcd   string // where etcd is, for errors
	Logger *slog.Logger
}

// TTL is the TTL of pawld's own session, so long that a client's own TTL decides.
func (c Config) TTL() time.Duration { return 2 * c.Table.MaxTTL }

// A Service holds locks for its clients. Its methods may be called by several goroutines
// at once.
type Service struct {
	cfg    Config
	client *pawl.Client

	mu    sync.Mutex
	table *table.Table
	parts map[table.Ref]*part
	rests map[table.Ref]rest // what is left of sets that lost a name: their other names stay taken
	news  map[string]*news   // by session: what its parked requests wait for

	own     chan struct{} // holds one element: the right to use and replace session
	session *pawl.Session
	lost    atomic.Int64 // how many of its own sessions were lost

	poked    chan struct{}
	draining chan struct{} // closed when no new promise is made
	drained  sync.Once
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup
	waits    sync.WaitGroup // acquisitions under way; none begins after draining is closed
	returns  sync.WaitGroup // background releases; none begins after draining is closed
	looking  sync.WaitGroup // waits for run

	overwritten clock.Instant // until when a client may believe that it holds a key that somebody overwrote
}

// A part is the engine's side of one row of the table.
type part struct {
	ref    table.Ref
	want   Want
	cancel context.CancelFunc // cancels the wait

	// Guarded by the service's mutex.
	queued   bool // its key is in the queue
	ahead    int  // how many were ahead of it when it was enqueued
	err      error
	refused  bool // err is final, and the row was deleted
	held     *held
	released chan struct{} // closed when the release is decided; nil: no release has begun
}

// New makes a Service; Close or Detach ends it. The client's observer has to pass its events to
// Observe.
func New(client *pawl.Client, cfg Config) *Service {
	s := &Service{
		cfg: cfg, client: client, table: table.New(cfg.Table, clock.Now()),
		parts: make(map[table.Ref]*part), rests: make(map[table.Ref]rest), news: make(map[string]*news),
		own: make(chan struct{}, 1), poked: make(chan struct{}, 1), draining: make(chan struct{}),
	}
	s.own <- struct{}{}
	s.life, s.end = context.WithCancel(context.Background())
	s.looking.Add(1)
	go s.run() // ends when draining is closed
	return s
}

// run calls the table's Look whenever something in it is due.
func (s *Service) run() {
	defer s.looking.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.poked:
		case <-s.draining:
			return
		}
		s.mu.Lock()
		next := s.table.Look(clock.Now())
		s.unlock()
		timer.Reset(next)
	}
}

func (s *Service) poke() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// unlock ends a change of the table: it unlocks s.mu and carries out the table's effects.
func (s *Service) unlock() {
	var todo []func()
	for _, fx := range s.table.Effects() {
		p := s.parts[fx.Ref]
		delete(s.parts, fx.Ref)
		s.wake(fx.Ref.Session)
		if p == nil {
			continue
		}
		p.cancel()
		switch fx.Kind {
		case table.Forfeit:
			todo = append(todo, func() { p.held.Forfeit(fx.Why) })
		case table.Return:
			todo = append(todo, s.giveBack(p.held))
		}
	}
	s.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// giveBack returns a function that releases, in the background, a lock that no client believes
// in. s.mu is held when giveBack is called, and not when the function is. While pawld stops,
// the function releases in the foreground, because a key that is neither saved nor released
// would belong to nobody.
func (s *Service) giveBack(h *held) func() {
	if s.stopping() {
		return func() { s.back(h) }
	}
	s.returns.Add(1)
	return func() {
		go func() { // bounded
			defer s.returns.Done()
			s.back(h)
		}()
	}
}

func (s *Service) back(h *held) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = h.back(ctx) // the engine completes it
}

// wake wakes the parked requests of a session; s.mu is held.
func (s *Service) wake(session string) {
	if n := s.news[session]; n != nil {
		close(n.changed)
		delete(s.news, session)
	}
}

// news is what the parked requests of a session wait for.
type news struct {
	changed chan struct{} // closed when something of the session has changed
	parked  int           // how many wait for it
}

// listen returns what a request of the session that is to be parked waits for; s.mu is held.
func (s *Service) listen(session string) *news {
	n := s.news[session]
	if n == nil {
		n = &news{changed: make(chan struct{})}
		s.news[session] = n
	}
	n.parked++
	return n
}

// unpark ends what listen began: nothing is kept for a session without a parked request.
// s.mu is held.
func (s *Service) unpark(session string, n *news) {
	if n.parked--; n.parked == 0 && s.news[session] == n {
		delete(s.news, session)
	}
}

// Session implements pawl.Sessions: it returns pawld's own session, and grants a new one after
// that has ended.
func (s *Service) Session(ctx context.Context) (*pawl.Session, error) {
	select {
	case <-s.own:
		defer func() { s.own <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.session != nil {
		err := s.session.Err()
		if err == nil {
			return s.session, nil
		}
		s.cfg.Logger.Warn("pawld's own session at etcd ended, and all locks on it", "cause", err)
		s.lost.Add(1)
		s.session = nil
	}
	session, err := s.client.NewSession(ctx, lease.Options{TTL: s.cfg.TTL(), Owner: s.cfg.Owner})
	if err != nil {
		return nil, err
	}
	s.session = session
	return session, nil
}

// partKey is the key of a part in a context, where Observe finds it.
type partKey struct{}

// Observe implements observe.Observer: it notes that a part's key is in the queue.
func (s *Service) Observe(ctx context.Context, ev observe.Event) {
	p, _ := ctx.Value(partKey{}).(*part)
	if p == nil {
		return
	}
	ahead := -1
	switch ev := ev.(type) {
	case observe.LockEnqueued:
		ahead = ev.Ahead
	case observe.CampaignEnqueued:
		ahead = ev.Ahead
	default:
		return
	}
	s.mu.Lock()
	p.queued, p.ahead, p.err = true, ahead, nil
	s.wake(p.ref.Session)
	s.unlock()
}

// wait acquires for a row until the lock is held, refused or no longer wanted, and, once it is
// held, waits for its end.
func (s *Service) wait(ctx context.Context, ref table.Ref, p *part) {
	defer s.work.Done()
	defer p.cancel()
	if s.wins(ctx, ref, p) {
		s.watch(ref, p)
	}
}

func (s *Service) wins(ctx context.Context, ref table.Ref, p *part) bool {
	defer s.waits.Done()
	h := s.queue(ctx, ref, p)
	return h != nil && s.won(ref, p, h)
}

// queue acquires until the lock is held; nil: it was refused, or is no longer wanted.
func (s *Service) queue(ctx context.Context, ref table.Ref, p *part) *held {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		h, err := p.want.acquire(context.WithValue(ctx, partKey{}, p), s)
		if err == nil {
			return h
		}
		if ctx.Err() != nil || s.failed(ref, p, err) {
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// failed records why an acquisition failed; true: it is not tried again.
func (s *Service) failed(ref table.Ref, p *part, err error) bool {
	s.mu.Lock()
	defer s.unlock()
	if s.parts[ref] != p { // nobody wants it any more, and the row may be another acquisition's
		return true
	}
	defer s.wake(ref.Session)
	p.queued, p.err = false, err
	switch final(err) {
	case refusal:
		p.refused = true
		s.table.Forget(ref)
	case loss:
		s.table.Lose(ref, err, clock.Now())
	default:
		return false
	}
	delete(s.parts, ref)
	return true
}

// won gives the table a lock that is held. false: no client wants it any more.
func (s *Service) won(ref table.Ref, p *part, h *held) bool {
	s.mu.Lock()
	// A client that settles what it released may use the request again: then the row is not p's.
	ok := !s.stopping() && s.parts[ref] == p && s.table.Won(ref, h, clock.Now())
	if ok {
		p.held = h
		s.wake(ref.Session)
	}
	back := func() {}
	if !ok {
		back = s.giveBack(h)
	}
	s.unlock()
	back()
	s.poke()
	return ok
}

// watch waits for the end of a held lock.
func (s *Service) watch(ref table.Ref, p *part) {
	select {
	case <-p.held.Done():
	case <-s.life.Done():
		return
	}
	s.mu.Lock()
	if p.released == nil { // otherwise the release reports it
		now := clock.Now()
		if s.parts[ref] == p { // otherwise the table has ended it, and the row may be another acquisition's
			s.table.Lose(ref, p.held.Err(), now)
			delete(s.parts, ref)
			s.wake(ref.Session)
		}
		if errors.Is(p.held.Err(), lock.ErrKeyOverwritten) { // a successor of this pawld deletes the key at once
			s.overwritten = now.Add(s.cfg.Table.MaxTTL)
		}
		if p.held.leavesRest() {
			s.keepRest(ref, p.held)
		}
	}
	s.unlock()
}

// A rest is what is left of a set that lost a name.
type rest struct {
	*held
	until clock.Instant // when it is released
}

// keepRest keeps the other names of a set that lost one taken until its client releases it, or
// has had its TTL to stop its work: if another name were handed on earlier, that name would
// have two holders. No client believes that it holds them for longer. s.mu is held.
func (s *Service) keepRest(ref table.Ref, h *held) {
	ttl := s.table.TTL(ref.Session)
	s.rests[ref] = rest{h, clock.Now().Add(ttl)}
	time.AfterFunc(ttl, func() {
		s.mu.Lock()
		if s.rests[ref].held == h { // not a later one's
			s.freeRest(ref)
		}
		s.unlock()
	})
}

// freeRest releases, in the background, what is left of a set; s.mu is held. Once pawld stops,
// Detach does that.
func (s *Service) freeRest(ref table.Ref) {
	if r, ok := s.rests[ref]; ok && !s.stopping() {
		delete(s.rests, ref)
		s.giveBack(r.held)()
	}
}

// The errors of a Service.
var (
	// ErrUnavailable: try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrStopping: pawld stops, or a successor takes over.
	ErrStopping = errors.New("pawld is stopping")
)

// stopping reports whether draining is closed; s.mu need not be held.
func (s *Service) stopping() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Counts are the numbers for metrics.
type Counts struct {
	table.Counts
	Lost int // sessions of pawld's own
}

// Counts returns the current numbers.
func (s *Service) Counts() (c Counts) {
	s.mu.Lock()
	c.Counts = s.table.Counts()
	s.unlock()
	c.Lost = int(s.lost.Load())
	return c
}

// Ready returns why no lock can be acquired now; nil: pawld has a session at etcd.
func (s *Service) Ready(ctx context.Context) error {
	if s.stopping() {
		return ErrStopping
	}
	_, err := s.Session(ctx)
	return err
}
