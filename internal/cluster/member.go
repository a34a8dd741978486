package cluster

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	tlscreds "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	retry "github.com/pawl-locks/pawl/internal/backoff"
)

// Member is one endpoint with a connection of its own, and so with its own TLS server name and
// its own failures. It is safe for concurrent use. Its clients send requests unchanged: their
// context must come from Cluster.Outgoing.
type Member struct {
	endpoint endpoint
	conn     *link
	kv       pb.KVClient
	lease    pb.LeaseClient
	watch    pb.WatchClient

	inflight atomic.Int64 // requests and streams under way
	retired  atomic.Bool  // no longer in the list; the connection is closed when inflight is 0

	coolUntil atomic.Int64          // on the Cluster's clock: until then Pick prefers other members
	failure   atomic.Pointer[error] // the last since it served, or nil
	id        atomic.Uint64
	accepted  atomic.Pointer[login] // the last token that it accepted
	refused   atomic.Pointer[login] // the last token that it refused; nil since it accepted one
	own       atomic.Pointer[login] // for requests to it only; nil: they carry the one of all
	checked   atomic.Bool           // Status has answered
	learner   atomic.Bool
	nests     atomic.Int64           // the version if it accepts transactions within transactions, otherwise 0; see TakesNested
	foreign   atomic.Int32           // how often in a row another cluster answered here, at most confirmed
	warned    atomic.Pointer[string] // the version that was last warned about

	// Guarded by credentials.mu.
	ownFrom  time.Duration // on the Cluster's clock: own is not fetched before
	ownPause retry.Backoff // from one such fetch to the next
}

func newMember(ep endpoint, c *Cluster) (*Member, error) {
	m := &Member{endpoint: ep, ownPause: retry.Backoff{First: minOwnPause, Most: maxOwnPause}}
	var err error
	if m.conn, err = newLink(c, m); err != nil {
		return nil, err
	}
	m.kv, m.lease, m.watch = pb.NewKVClient(m), pb.NewLeaseClient(m), pb.NewWatchClient(m)
	return m, nil
}

// eachHandshake is TLS with a configuration of its own for each handshake.
type eachHandshake struct {
	tlscreds.TransportCredentials
	config func() *tls.Config
}

func (e eachHandshake) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, tlscreds.AuthInfo, error) {
	return tlscreds.NewTLS(e.config()).ClientHandshake(ctx, authority, conn)
}

func (e eachHandshake) Clone() tlscreds.TransportCredentials { return e }

func dialOptions(ep endpoint, cfg *Config, l *line) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if ep.tls {
		creds = tlscreds.NewTLS(cfg.TLS) // copies; nil means the system's roots
		if cfg.Handshake != nil {
			creds = eachHandshake{creds, cfg.Handshake}
		}
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(listening{creds, l}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		// The server ends connections that ping more often than every 5 s, or while idle.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		// Windows of a fixed size. To size them itself, gRPC would ping the server whenever
		// data arrive, which costs both sides a message for most answers here. A full window
		// delays a long answer by a round trip.
		grpc.WithStaticStreamWindowSize(1 << 20),
		grpc.WithStaticConnWindowSize(4 << 20),
	}
	if l.addresses != nil {
		opts = append(opts, grpc.WithContextDialer(l.addresses.connect))
	}
	// The witness comes last, so that none of the user's interceptors is between it and the
	// transport.
	return append(append(opts, cfg.DialOptions...), grpc.WithChainUnaryInterceptor(witness))
}

// Endpoint is the member's address, for people to read: "host:port" or "unix:///path".
func (m *Member) Endpoint() string { return m.endpoint.name }

// KV is the member's key-value service.
func (m *Member) KV() pb.KVClient { return m.kv }

// Lease is the member's lease service.
func (m *Member) Lease() pb.LeaseClient { return m.lease }

// Watch is the member's watch service.
func (m *Member) Watch() pb.WatchClient { return m.watch }

// Invoke implements grpc.ClientConnInterface.
func (m *Member) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	m.inflight.Add(1)
	defer m.done()
	return m.conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface. The stream counts as under way until it has
// ended. The outcome of a try that opens a stream is Unknown.
func (m *Member) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if t, ok := ctx.Value(tryKey{}).(*try); ok && t.begin() == nil {
		return nil, errTryEnded
	}
	m.inflight.Add(1)
	done := sync.OnceFunc(m.done)
	s, err := m.conn.NewStream(ctx, desc, method, append(opts, grpc.OnFinish(func(error) { done() }))...)
	if err != nil {
		done()
		return nil, err
	}
	return s, nil
}

// done ends what Invoke or NewStream counted.
func (m *Member) done() {
	if m.inflight.Add(-1) == 0 && m.retired.Load() {
		_ = m.conn.Close() // a second Close returns an error, and is harmless
	}
}

// retire closes the connection once nothing is under way on it.
func (m *Member) retire() {
	m.retired.Store(true)
	if m.inflight.Load() == 0 {
		_ = m.conn.Close()
	}
}

// Retired reports whether the client no longer uses the member; its users then have to end
// their streams to it.
func (m *Member) Retired() bool { return m.retired.Load() }

// left reports whether a retired member's connection is closed.
func (m *Member) left() bool { return m.conn.GetState() == connectivity.Shutdown }
