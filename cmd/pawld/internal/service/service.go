package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
	"github.com/pawl-locks/pawl/lease"
)

// Config configures a Service.
type Config struct {
	Registry registry.Config
	Owner    string // of pawld's session
	Etcd     string // where etcd is, for errors
	Logger   *slog.Logger

	LockDelay time.Duration // of pawld's session
}

// TTL is the TTL of pawld's session. It is so long that a client's TTL decides.
func (c Config) TTL() time.Duration { return 2 * c.Registry.MaxTTL }

// A Service holds locks for its clients. It is safe for concurrent use.
type Service struct {
	cfg    Config
	client *pawl.Client

	mu       sync.Mutex
	registry *registry.Registry
	parts    map[registry.Ref]*part
	rests    map[registry.Ref]rest // what is left of sets that lost a name, whose other names stay taken
	news     map[string]*news      // by session: what its parked requests wait for

	bindings map[string]*binding // by session

	own     gate.Gate // entered to use or replace session
	session *pawl.Session
	stalled int          // how many locks were lost without progress
	lost    atomic.Int64 // how many sessions of pawld were lost

	probing gate.Gate // entered to probe etcd, or to use probed
	probed  probe     // the last probe

	leaving clock.Instant   // when AwaitRenewals was called
	awaited map[string]bool // the sessions that it waits for
	renewed chan struct{}   // closed when none is left

	rescheduled chan struct{}
	serving     context.Context // ends when no new promise is made
	draining    <-chan struct{} // closed then
	drain       context.CancelFunc
	drained     sync.Once
	hurried     context.Context // ends when the shutdown must no longer wait for anything
	Hurry       context.CancelFunc
	life        context.Context
	end         context.CancelFunc
	work        sync.WaitGroup
	waits       sync.WaitGroup // acquisitions under way; none begins after draining is closed
	returns     sync.WaitGroup // background releases; none begins after draining is closed
	running     sync.WaitGroup // waits for run

	// removing is until when a client may believe that it holds a key which is being removed, and
	// which a successor would delete at once, because somebody overwrote it, or it could not be
	// taken over.
	removing clock.Instant
}

// New makes a Service, which Close or Detach ends. The client's observer has to pass its events to
// Observe.
func New(client *pawl.Client, cfg Config) *Service {
	s := &Service{
		cfg: cfg, client: client, registry: registry.New(cfg.Registry, clock.Now()),
		parts: make(map[registry.Ref]*part), rests: make(map[registry.Ref]rest), news: make(map[string]*news),
		bindings: make(map[string]*binding),
		own:      gate.New(1), probing: gate.New(1), renewed: make(chan struct{}), rescheduled: make(chan struct{}, 1),
	}
	s.serving, s.drain = context.WithCancel(context.Background())
	s.draining = s.serving.Done()
	s.hurried, s.Hurry = context.WithCancel(context.Background())
	s.life, s.end = context.WithCancel(context.Background())
	s.running.Add(1)
	go s.run() // ends when draining is closed
	return s
}

// run calls the registry's Tick whenever something in it is due.
func (s *Service) run() {
	defer s.running.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.rescheduled:
		case <-s.draining:
			return
		}
		s.mu.Lock()
		next := s.registry.Tick(clock.Now())
		s.unbind(func(session string) bool { return s.registry.TTL(session) == 0 }) // it is forgotten
		s.unlock()
		timer.Reset(next)
	}
}

// reschedule makes run call Tick now, because something may have become due earlier.
func (s *Service) reschedule() {
	select {
	case s.rescheduled <- struct{}{}:
	default:
	}
}

// unlock ends a change of the registry. It unlocks s.mu and carries out the registry's effects.
func (s *Service) unlock() {
	var todo []func()
	for _, fx := range s.registry.Effects() {
		p := s.parts[fx.Ref]
		delete(s.parts, fx.Ref)
		s.wake(fx.Ref.Session)
		if p == nil {
			continue
		}
		p.cancel()
		switch fx.Kind {
		case registry.Forfeit:
			todo = append(todo, func() { p.held.Forfeit(fx.Why) })
		case registry.Abandon:
			todo = append(todo, func() { p.held.Retract(); p.held.Forfeit(fx.Why) })
		case registry.Return:
			todo = append(todo, s.giveBack(p.held))
		}
	}
	s.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// giveBack returns a function that releases, in the background, a lock that no client believes in.
// s.mu is held when giveBack is called, and not when the function is. While pawld stops, the
// function releases in the foreground, because nobody would remove a key that is neither saved nor
// released.
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
	ctx, cancel := context.WithTimeout(s.hurried, 3*time.Second)
	defer cancel()
	_ = h.back(ctx) // the engine completes it
}

// Session implements pawl.Sessions. It returns pawld's session, and grants a new one after that has
// ended.
func (s *Service) Session(ctx context.Context) (*pawl.Session, error) {
	if !s.own.Enter(ctx) {
		return nil, context.Cause(ctx)
	}
	defer s.own.Leave()
	if s.session != nil {
		err := s.session.Err()
		if err == nil {
			return s.session, nil
		}
		s.cfg.Logger.Warn("pawld's own session at etcd ended, and all locks on it", "cause", err)
		s.lost.Add(1)
		s.session = nil
	}
	session, err := s.client.NewSession(ctx, lease.Options{TTL: s.cfg.TTL(), LockDelay: s.cfg.LockDelay, Owner: s.cfg.Owner})
	if err != nil {
		return nil, err
	}
	s.session = session
	return session, nil
}

// These are the errors of a Service.
var (
	// ErrUnavailable means that the caller should try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrStopping means that pawld stops, or that a successor takes over.
	ErrStopping = errors.New("pawld is stopping")
)

// Serving returns a context for a call that parks. It ends with ctx, and when pawld stops. An error
// means that pawld stops already.
func (s *Service) Serving(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.stopping() {
		return nil, nil, ErrStopping
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.serving, func() { cancel(ErrStopping) })
	return ctx, func() { unhook(); cancel(nil) }, nil
}

// stopping reports whether draining is closed. s.mu need not be held.
func (s *Service) stopping() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Knows reports whether an identity has a session. One that a newer policy gives no names may keep and
// release what it has.
func (s *Service) Knows(identity string) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.registry.Knows(identity)
}

// Counts are the numbers for metrics.
type Counts struct {
	registry.Counts
	Lost    int // sessions of pawld
	Stalled int // locks that were lost without progress
	Idle    int // how long the one without progress for longest has made none, in seconds
}

// Counts returns the current numbers.
func (s *Service) Counts() (c Counts) {
	s.mu.Lock()
	c.Counts, c.Stalled = s.registry.Counts(), s.stalled
	now := clock.Now()
	for _, p := range s.parts {
		if p.isHeld() && p.want.Stall > 0 {
			c.Idle = max(c.Idle, int(now.Sub(p.progress)/time.Second))
		}
	}
	s.unlock()
	c.Lost = int(s.lost.Load())
	return c
}

// A probe is whether a lock could be acquired at an instant.
type probe struct {
	at  clock.Instant
	err error
}

// However often Ready is called, etcd is probed once at a time, and again only after probeKept has
// passed, because the probe is a write, and there are callers who may use no name.
const (
	probeKept = time.Second
	probeWait = 2 * time.Second // how long etcd may take
)

// Ready returns why no lock can be acquired now, or could be a moment ago. It returns nil if pawld has
// a session at etcd, which would accept a write.
func (s *Service) Ready(ctx context.Context) error {
	if s.stopping() {
		return ErrStopping
	}
	if !s.probing.Enter(ctx) {
		return s.silent()
	}
	defer s.probing.Leave()
	if s.probed.at.IsZero() || clock.Now().Sub(s.probed.at) >= probeKept {
		err := s.probe() // for others, too, so the end of ctx does not end it
		s.probed = probe{clock.Now(), err}
	}
	return s.probed.err
}

func (s *Service) probe() error {
	ctx, cancel := context.WithTimeout(s.life, probeWait)
	defer cancel()
	_, err := s.Session(ctx)
	if err == nil {
		err = s.rehearse(ctx)
	}
	if cluster.IsNoSpace(err) {
		return fmt.Errorf("etcd is out of space (NOSPACE): %w", err)
	}
	return s.Silent(ctx, err)
}
