package pawl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/tlsfiles"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/observe"
)

// Config is the configuration of a Client. Only Endpoints is required.
type Config struct {
	// Endpoints are members of one etcd cluster: "host:port", "http://host:port",
	// "https://host:port", "unix:///path" or, with TLS, "unixs:///path". The client connects to
	// them directly: etcd's grpc-proxy is not supported.
	Endpoints []string
	// TLS is used for every endpoint; it may hold a client certificate. With nil, every
	// endpoint uses TLS with the system's roots if any of them says https or unixs, and
	// plain text otherwise. If TLS is used, nothing is sent without it: "http" endpoints are refused, and
	// those that SyncEvery finds are not used.
	TLS *tls.Config
	// TLSFiles, in place of TLS, are PEM files that are read anew at each handshake.
	TLSFiles TLSFiles
	// Username and Password log in to a cluster with authentication on. The
	// user's role needs readwrite on keys from <Namespace>//pawl/ and on the
	// prefix of each lock's and election's name, or on the whole Namespace.
	Username string
	Password string
	// Namespace is prefixed to the keys of locks, elections and sessions, but not to those
	// given to KV.
	Namespace string
	// Lazy makes Dial only check the Config, so that a program can start before the cluster.
	// The first call that needs the cluster does what Dial would have done, and queries the
	// endpoints again until one answers, until its context ends, or for 12 s; a later call
	// tries again.
	Lazy bool
	// SyncEvery is how often the list of endpoints is refreshed from the
	// cluster's own list of members; 0 means never.
	SyncEvery time.Duration
	// TokenFloor makes acquisitions fail with ErrTokenFloor if their token is at or below it.
	// After a restore of the cluster, set it to the highest token that the storage has seen.
	TokenFloor fencing.Token
	// Session is the options of the client's own session, which Client.Session makes. Resume is
	// refused here: a Handle works once.
	Session lease.Options
	// Logger gets what an operator has to know, never a password or a token. nil: no log.
	Logger *slog.Logger
	// Observer gets the events of sessions, locks and elections: see package observe. nil: no
	// events, at no cost.
	Observer observe.Observer
	// DialOptions come after pawl's own, and win. An interceptor may change or drop options,
	// bound a request, and send it several times. pawl's own writes are harmless when they are
	// executed twice; the outcome of a caller's kv.Txn, of which more than one copy may have
	// been applied, is unknown. An interceptor must pass on the context that it got, or one
	// made from it, and must not send after it has returned, which is refused. pawl sees which
	// requests are really sent: if an interceptor fails a request without sending it, or sends
	// it with another context, the error's outcome is unknown (kv.ErrUnknown). One request may
	// contain the transactions of many callers, each as a transaction of its own: the context
	// of such a request has no caller's values and no caller's deadline, so a trace of it
	// belongs to none of them.
	DialOptions []grpc.DialOption
}

// TLSFiles are the names of PEM files, of which each may be "". A handshake uses what they hold
// then, so they can be rotated while the client runs. Files that cannot be used are an error of Dial;
// later, what they held before is used on, and Config.Logger is told once.
type TLSFiles struct {
	CA   string // authorities that the members' certificates are verified with; "": the system's
	Cert string // the client's certificate, with its chain; Cert and Key belong together
	Key  string
}

// maxNamespace bounds Config.Namespace.
const maxNamespace = 1024

// check reports what is wrong with cfg, except for what the connection itself checks.
func (cfg Config) check() error {
	if len(cfg.Namespace) > maxNamespace {
		return fmt.Errorf("Config.Namespace has %d bytes, want at most %d", len(cfg.Namespace), maxNamespace)
	}
	if cfg.TokenFloor < 0 {
		return fmt.Errorf("Config.TokenFloor is %d, want 0 or more", cfg.TokenFloor)
	}
	if cfg.Session.Resume != (lease.Handle{}) {
		return fmt.Errorf("Config.Session.Resume is set: a handle works once, give it to NewSession")
	}
	if err := cfg.Session.Check(); err != nil {
		return fmt.Errorf("Config.Session: %w", err)
	}
	return nil
}

func (cfg Config) connection() (cluster.Config, error) {
	c := cluster.Config{
		Endpoints: cfg.Endpoints, TLS: cfg.TLS, Username: cfg.Username, Password: cfg.Password,
		Lazy: cfg.Lazy, SyncEvery: cfg.SyncEvery, Logger: cfg.Logger, Observer: cfg.Observer, DialOptions: cfg.DialOptions,
	}
	if cfg.TLSFiles == (TLSFiles{}) {
		return c, nil
	}
	if cfg.TLS != nil {
		return c, errors.New("Config.TLS and Config.TLSFiles are both set")
	}
	files, err := tlsfiles.Open(tlsfiles.Names(cfg.TLSFiles), tlsfiles.Labels{CA: "Config.TLSFiles.CA", Pair: "Config.TLSFiles.Cert and Key"}, cfg.Logger)
	if err != nil {
		return c, err
	}
	c.Handshake = files.Client
	return c, nil
}
