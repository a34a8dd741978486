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
	// Endpoints are members of one etcd cluster: "host:port", "http://host:port", "https://host:port",
	// "unix:///path" or, with TLS, "unixs:///path". Spaces around an
	// element, empty elements, and a slash after http://host:port are ignored. The client connects to
	// them directly, whatever HTTP_PROXY and similar variables say. It does not support etcd's grpc-proxy.
	Endpoints []string
	// TLS is used for every endpoint. It may contain a client certificate. If it is nil, every endpoint
	// uses TLS with the system's roots if any of them says https or unixs, and plain text otherwise. If
	// TLS is used, nothing is sent without it: "http" endpoints are refused, and those that SyncEvery
	// finds are not used.
	TLS *tls.Config
	// TLSFiles are PEM files that are read at each handshake. They are used instead of TLS.
	TLSFiles TLSFiles
	// Username and Password log in to a cluster with authentication on. The user's role needs readwrite
	// on the prefix <Namespace>//pawl/ and on the prefix of each lock's and election's name, or on the
	// whole Namespace.
	Username string
	Password string
	// Namespace is prefixed to the keys of locks, elections and sessions, but not to those
	// given to KV.
	Namespace string
	// Lazy makes Dial only check the Config, so that a program can start before the cluster. The first
	// call that needs the cluster does what Dial would have done, and queries the endpoints repeatedly
	// until one answers, until its context ends, or for 20 s. If it fails, a later call tries again.
	Lazy bool
	// SyncEvery is how often the list of endpoints is refreshed from the cluster's list of members. 0
	// means never.
	SyncEvery time.Duration
	// TokenFloor makes acquisitions fail with ErrTokenFloor if their token is at or below it.
	// After a restore of the cluster, set it to the highest token that the storage has seen.
	TokenFloor fencing.Token
	// Session is the options of the client's session, which Client.Session makes. Resume is refused
	// here, because a Handle works once.
	Session lease.Options
	// ReclaimDir, if it is not empty, lets what a session of this Client holds be free as soon as this
	// process is dead, instead of after its lease's TTL.
	//
	// A lease that expires gives writes that a dead process has under way the rest of the TTL to arrive. A
	// reclaim does not: such a write can arrive after the next holder's. Storage that checks the token
	// refuses it. For other storage set lease.Options.LockDelay, which counts from the proof of death.
	//
	// Each session leaves a file in this directory, at most 256 a process, and removes it at its end. Once
	// no process has the memory of this one any more, whoever finds the file revokes the lease: the next
	// session of the directory, or pawl reap at once. What this process has started does not count, unless
	// it has forked without beginning another program: end it yourself. A new session waits for such
	// revocations for up to 2 s. Its children that hold on behalf of it must be dead when it is.
	//
	// The directory belongs to this process's user alone, with mode 0700, on tmpfs, ext4, xfs or btrfs; it is
	// made if its parent is there. Dial returns an error for anything else, and on other systems than Linux.
	// A session that cannot leave a file goes on without, with one warning for the Client; a disk that does
	// not answer holds a call up for 2 s at most. If the directory is removed, or another one takes its place,
	// new sessions use that. Who shares the directory has to use the same cluster, Namespace and user for what
	// is in it to be found.
	ReclaimDir string
	// Logger gets what an operator has to know, and never a password or a token. Nothing is logged if
	// it is nil. A goroutine of the Client calls its handler, and nothing else waits for it. If it does
	// not keep up, up to 1,024 records wait, and further ones are dropped. The log then says how many.
	// A handler may panic, which costs the record. Close waits for it for 1 s at most.
	Logger *slog.Logger
	// Observer gets the events of sessions, locks and elections; see package observe. If it is nil,
	// there are no events, at no cost.
	Observer observe.Observer
	// DialOptions come after those of pawl, and override them. An interceptor may change or drop
	// options, set a time limit for a request, and send it several times. The writes of pawl itself are
	// harmless when they are executed twice. The outcome of a caller's kv.Txn is unknown if more than
	// one copy of it may have been applied. An interceptor must pass on the context that it got, or one
	// derived from it, and must not send after it has returned, which is refused. pawl observes which
	// requests are really sent. If an interceptor fails a request without sending it, or sends it with
	// another context, the error's outcome is unknown (kv.ErrUnknown). One request may contain the
	// transactions of many callers, each as a nested transaction. The context of such a request has no
	// caller's values and no caller's deadline, so a trace of it belongs to none of them.
	DialOptions []grpc.DialOption
}

// TLSFiles are the names of PEM files, each of which may be "". Each handshake uses what the files
// contain then, so they can be rotated while the client runs. Dial returns an error if they cannot be
// used. If they cannot be used later, their last usable content remains in use, and Config.Logger gets
// one warning.
type TLSFiles struct {
	CA   string // authorities by which the members' certificates are verified; "" means the system's
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
	files, err := tlsfiles.Open(tlsfiles.Names(cfg.TLSFiles), tlsfiles.Labels{CA: "Config.TLSFiles.CA", Pair: "Config.TLSFiles.Cert and Key"})
	if err != nil {
		return c, err
	}
	c.Handshake = files.Client
	return c, nil
}
