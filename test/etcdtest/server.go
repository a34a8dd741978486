package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/loopback"
	"github.com/pawl-locks/pawl/test/etcdtest/fatallog"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// startTimeout bounds how long a server may take until it serves.
const startTimeout = 2 * time.Minute

// A server alone, unless Options say otherwise, has these timings. It need not notice that another
// member is gone, and idle heartbeats are most of the cost of many servers on one machine.
const (
	soloHeartbeat     = 40 * time.Millisecond
	soloElectionTicks = 5 // the least that etcd takes
)

// alone fills in the timings of a server alone.
func (o Options) alone() Options {
	if o.Heartbeat == 0 {
		o.Heartbeat, o.ElectionTicks = soloHeartbeat, cmp.Or(o.ElectionTicks, soloElectionTicks)
	}
	return o
}

// Server is a real etcd server with one member. Its methods may be called from any goroutine, but
// only one at a time may call Stop, Restart and Close.
type Server struct {
	opts   Options
	dir    string
	client *loopback.Port
	peer   *loopback.Port
	certs  *authority // nil without TLS
	other  *Member    // the server, if BinaryEnv names another etcd; nil if it is embedded

	mu      sync.Mutex
	etcd    *embed.Etcd // nil while it is stopped
	serving *grpc.Server
	closed  bool
}

// Start starts a server that lasts until the end of the test. It fails the test if that cannot be
// done. If BinaryEnv names an etcd binary, that is the server, in a separate process.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start with options.
func StartWith(t testing.TB, o Options) *Server {
	t.Helper()
	if os.Getenv(BinaryEnv) != "" {
		o = o.alone()
		c := StartClusterWith(t, 1, ClusterOptions{Options: o})
		m := c.Member(0)
		return &Server{opts: o, client: m.client, certs: c.certs, other: m}
	}
	s, err := New(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// New is StartWith without a test. It is for an example, or for a TestMain whose tests share a
// server. The server lasts until Close. It is always the embedded one, whatever BinaryEnv says.
func New(o Options) (*Server, error) {
	dir, err := os.MkdirTemp("", "etcdtest-")
	if err != nil {
		return nil, fmt.Errorf("etcdtest: start: %w", err)
	}
	s := &Server{opts: o.alone(), dir: dir}
	if err = s.prepare(); err == nil {
		err = s.Restart()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("etcdtest: start: %w", err)
	}
	return s, nil
}

// prepare makes what a server needs before it starts.
func (s *Server) prepare() error {
	if s.opts.TLS {
		certs, err := newAuthority(filepath.Join(s.dir, "certs"))
		if err != nil {
			return err
		}
		s.certs = certs
	}
	for _, p := range []**loopback.Port{&s.client, &s.peer} {
		var err error
		if *p, err = loopback.Reserve(); err != nil {
			return fmt.Errorf("reserve a port: %w", err)
		}
	}
	return nil
}

// Close stops a server that New started, and gives up its ports and its data. It does
// nothing the second time. A test's server is closed at the test's end.
func (s *Server) Close() {
	if s.other != nil {
		return // its cluster ends with the test
	}
	s.Stop()
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	for _, p := range []*loopback.Port{s.client, s.peer} {
		if p != nil {
			p.Release()
		}
	}
	_ = os.RemoveAll(s.dir)
}

// Endpoints are the addresses for a client's configuration.
func (s *Server) Endpoints() []string { return []string{s.url(s.client).String()} }

// Addr is the host and port of the one endpoint.
func (s *Server) Addr() string { return s.client.String() }

func (s *Server) url(p *loopback.Port) *url.URL {
	scheme := "http"
	if s.certs != nil && p == s.client {
		scheme = "https"
	}
	return &url.URL{Scheme: scheme, Host: p.String()}
}

// Restart stops the server if it runs, and starts it again on the same ports
// with the same data. It returns when the server serves.
func (s *Server) Restart() error {
	s.Stop()
	if s.other != nil {
		if err := s.other.launch(); err != nil {
			return err
		}
		return s.other.ready(startTimeout)
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return errors.New("etcdtest: the server is closed")
	}
	etcd, serving, err := s.run()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etcd, s.serving = etcd, serving
	return nil
}

// Stop ends the server at once, as a crash would, but waits until all of it is gone. Connections
// are closed, and new ones refused. Stopping a stopped one does nothing.
func (s *Server) Stop() {
	if s.other != nil {
		s.other.Kill()
		return
	}
	s.mu.Lock()
	etcd, serving := s.etcd, s.serving
	s.etcd, s.serving = nil, nil
	s.mu.Unlock()
	if etcd == nil {
		return
	}
	serving.Stop() // otherwise Close would wait for open streams to end by themselves
	etcd.Close()
	s.gone()
}

// gone waits until nothing holds the server's address and its log. A process that this one was
// starting meanwhile has copies of both until its program runs. Connections then succeed that
// nobody accepts, and an etcd that finds its log locked ends the whole process.
func (s *Server) gone() {
	for ; loopback.Shared && s.listens() || s.locked(); time.Sleep(time.Millisecond) {
	}
}

func (s *Server) listens() bool {
	c, err := net.Dial("tcp", s.Addr())
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func (s *Server) locked() bool {
	files, _ := filepath.Glob(filepath.Join(s.dir, "data", "member", "wal", "*")) // the pattern is sound
	return slices.ContainsFunc(files, locked)
}

func (s *Server) run() (*embed.Etcd, *grpc.Server, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, nil, err
	}
	registered := make(chan *grpc.Server, 1)
	cfg.ServiceRegister = func(g *grpc.Server) { registered <- g }
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, nil, err
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case g := <-registered: // only after the server has a leader
		return etcd, g, nil
	case err = <-etcd.Err():
	case <-timeout.C:
		err = errors.New("not ready in time")
	}
	etcd.Close()
	return nil, nil, err
}

func (s *Server) config() (*embed.Config, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(s.dir, "data")
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(s.url(s.client)), urls(s.url(s.client))
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(s.url(s.peer)), urls(s.url(s.peer))
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.SocketOpts.ReusePort = loopback.Shared
	cfg.UnsafeNoFsync = !s.opts.Fsync
	cfg.BcryptCost = 4 // the least: a test's passwords need no protection
	cfg.QuotaBackendBytes = s.opts.QuotaBytes
	if s.opts.TokenTTL > 0 {
		cfg.AuthTokenTTL = uint((s.opts.TokenTTL + time.Second - 1) / time.Second)
	}
	if s.opts.MaxTxnOps > 0 {
		cfg.MaxTxnOps = uint(s.opts.MaxTxnOps)
	}
	cfg.TickMs = uint(s.opts.Heartbeat.Milliseconds())
	cfg.ElectionMs = uint(cmp.Or(s.opts.ElectionTicks, 10)) * cfg.TickMs
	if s.certs != nil {
		s.certs.configure(cfg, s.opts.ClientCerts)
	}
	if cfg.LogLevel = s.opts.LogLevel; cfg.LogLevel == "" {
		cfg.LogLevel = "error"
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(fatallog.New())
	}
	return cfg, nil
}

func urls(u *url.URL) []url.URL { return []url.URL{*u} }

// Conn returns a plain gRPC connection to the server for its generated stubs,
// closed at the end of the test.
func (s *Server) Conn(t testing.TB) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if s.certs != nil {
		creds = credentials.NewTLS(s.TLS("root"))
	}
	conn, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatalf("etcdtest: connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// within is a context for the calls of this package's helpers.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	t.Cleanup(cancel)
	return ctx
}
