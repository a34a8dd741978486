package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/gate"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/observe"
)

// Config is the configuration of a Cluster. Only Endpoints is required. The fields that pawl.Config has
// too are described there.
type Config struct {
	Endpoints []string
	TLS       *tls.Config // copied; the default ServerName is the endpoint's host name, or localhost for a unix socket
	// Handshake returns the configuration of each handshake, and logs with log. It is used instead of TLS.
	Handshake          func(log *slog.Logger) *tls.Config
	Username, Password string        // no Username means no token, or the user of the client certificate
	Lazy               bool          // see Reach
	SyncEvery          time.Duration // at most ten times a second
	Logger             *slog.Logger
	Observer           observe.Observer
	DialOptions        []grpc.DialOption // come after those of this package, so they win

	// For tests. They replace how package net resolves a name and connects to an address of it.
	lookup func(ctx context.Context, host string) ([]string, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Cluster is a connection to an etcd cluster. It is safe for concurrent use.
type Cluster struct {
	cfg      Config
	log      *slog.Logger // never waits for Config.Logger
	records  *notify.Log  // of log
	notifier *notify.Notifier
	events   *notify.Source // of the members
	began    time.Time      // the origin of the cool-downs' clock

	members atomic.Pointer[[]*Member] // replaced as a whole, under mu
	picks   atomic.Uint64             // how often Pick was called
	leaving []*Member                 // no longer in members, but with requests under way; under mu
	leftOut sync.Map                  // by advertised endpoint, why it was last not used
	far     atomic.Bool               // WarnOfDistance has logged
	names   sync.Map                  // by host, *name

	id       atomic.Uint64
	raftTerm atomic.Uint64
	// revision is the highest revision received in a linearizable answer. If it is read before a request
	// is sent, it is the floor of that request's answer (K4). If it is read after that, it proves nothing
	// (F15).
	revision atomic.Int64

	creds    *credentials
	reaching gate.Gate // one first call at a time reaches the cluster

	life  context.Context // ends with Close
	die   context.CancelCauseFunc
	work  sync.WaitGroup // every goroutine; Close waits for it
	wake  chan struct{}  // wakes the keeper
	mu    sync.Mutex     // members' replacement, and the end
	ended chan struct{}
	err   atomic.Pointer[error] // why ended is closed; set once
	shut  atomic.Bool           // Close was called
}

func (cfg *Config) check() ([]endpoint, error) {
	if cfg.Username == "" && cfg.Password != "" {
		return nil, errors.New("a password is given without a user name")
	}
	if cfg.SyncEvery < 0 {
		return nil, fmt.Errorf("SyncEvery %v is negative", cfg.SyncEvery)
	}
	return parseEndpoints(cfg.Endpoints, cfg.secure())
}

// secure reports whether anything in cfg demands TLS. If so, every connection uses it, even to
// an advertised address.
func (cfg *Config) secure() bool {
	return cfg.TLS != nil || cfg.Handshake != nil || wantsTLS(cfg.Endpoints)
}

// newCluster checks cfg and makes the members' connections, which connect when first used.
func newCluster(cfg Config) (*Cluster, error) {
	eps, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		cfg.TLS = cfg.TLS.Clone()
	}
	c := &Cluster{cfg: cfg, began: time.Now(), wake: make(chan struct{}, 1), ended: make(chan struct{}), reaching: gate.New(1)}
	c.records, c.log = notify.LogOf(cfg.Logger)
	c.notifier = notify.New(cfg.Observer, c.log, c.Go)
	c.events = c.notifier.NewSource()
	c.life, c.die = context.WithCancelCause(context.Background())
	c.creds = newCredentials(c, cfg.Username, cfg.Password)
	list := make([]*Member, 0, len(eps))
	for _, ep := range eps {
		m, err := newMember(ep, c)
		if err != nil {
			c.die(err)
			for _, m := range list {
				m.close()
			}
			return nil, fmt.Errorf("endpoint %q: %w", ep.name, err)
		}
		list = append(list, m)
	}
	c.members.Store(&list)
	return c, nil
}

// Logger passes records on to Config.Logger, and never waits for it. It is not nil.
func (c *Cluster) Logger() *slog.Logger { return c.log }

// Notifier delivers to Config.Observer. It is nil if there is none.
func (c *Cluster) Notifier() *notify.Notifier { return c.notifier }

// HasUser reports whether requests are sent with the token of a user.
func (c *Cluster) HasUser() bool { return c.cfg.Username != "" }

// Ended is closed when Err becomes non-nil.
func (c *Cluster) Ended() <-chan struct{} { return c.ended }

// Err returns nil while the Cluster can be used, and afterwards always the same reason: ErrClosed, or
// an error that matches ErrChanged.
func (c *Cluster) Err() error {
	if p := c.err.Load(); p != nil {
		return *p
	}
	return nil
}

// end marks the Cluster as ended. The first reason is final. Requests under way continue.
func (c *Cluster) end(err error) {
	c.mu.Lock()
	first := c.err.CompareAndSwap(nil, &err)
	c.mu.Unlock()
	if !first {
		return
	}
	close(c.ended)
	if err != ErrClosed {
		c.log.Error("etcd cluster changed: nothing more is done with it", "error", err)
	}
}

// Close ends all requests and streams with ErrClosed, closes the connections, and waits for the
// Cluster's goroutines, and for its log up to notify.LogGrace. It can be called again; it returns nil.
func (c *Cluster) Close() error {
	c.close(notify.LogGrace)
	return nil
}

func (c *Cluster) close(logGrace time.Duration) {
	c.mu.Lock()
	c.shut.Store(true)
	list := append(slices.Clone(c.list()), c.leaving...)
	c.mu.Unlock()
	c.end(ErrClosed)
	c.die(ErrClosed)
	for _, m := range list {
		m.close()
	}
	c.work.Wait()
	c.records.Close(logGrace)
}
