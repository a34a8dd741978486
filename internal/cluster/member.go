package cluster

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	tlscreds "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	retry "github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// Member is one endpoint with a separate connection, and so with its own TLS server name and its own
// failures. It is safe for concurrent use. It serves clients such as pb.NewLeaseClient(m), and sends
// their requests unchanged, so their context must come from Cluster.Outgoing.
type Member struct {
	c         *Cluster
	endpoint  endpoint
	addresses *addresses           // of the endpoint's name; nil for a socket
	line      atomic.Pointer[line] // in use; replaced if it turns mute and a new one to the same address does not

	inflight atomic.Int64 // requests and streams under way
	retired  atomic.Bool  // no longer in the list; the connection is closed when inflight is 0

	coolUntil atomic.Int64          // until then, on the Cluster's clock, Pick prefers other members
	failure   atomic.Pointer[error] // the last since it served, or nil
	id        atomic.Uint64
	accepted  atomic.Pointer[login] // the last token that it accepted
	refused   atomic.Pointer[login] // the last token that it refused; nil since it accepted one
	own       atomic.Pointer[login] // for requests to it only; if nil, they carry the one of all
	checked   atomic.Bool           // Status has answered
	learner   atomic.Bool
	nests     atomic.Int64           // the version if it accepts transactions within transactions, otherwise 0; see TakesNested
	foreign   atomic.Int32           // how often in a row another cluster answered here, at most confirmed
	warned    atomic.Pointer[string] // the version that was last warned about
	trip      atomic.Int64           // the usual duration of a health call

	// Guarded by credentials.mu.
	ownFrom  time.Time     // own is not fetched before
	ownPause retry.Backoff // from one fetch of own to the next

	wait func(d time.Duration, end, stop <-chan struct{}) bool // backoff.Wait

	mu      sync.Mutex
	closed  bool
	spareAt time.Time     // no spare is opened before
	swapped time.Time     // when the line was last replaced
	gap     time.Duration // from that to the next
	tripAt  time.Time     // when the round trip was last measured
	termAt  time.Time     // when the member was last asked for its raft term
}

// connectTotal bounds one attempt to connect: three round trips with TLS, and two without. It is also how
// long an idle connection may owe the answer to a ping.
const connectTotal = 10 * time.Second

// TryFor is how long one request to the member may take: 3 s, or two usual round trips if that is more.
func (m *Member) TryFor() time.Duration { return max(defaultPerTry, 2*time.Duration(m.trip.Load())) }

func newMember(ep endpoint, c *Cluster) (*Member, error) {
	m := &Member{c: c, endpoint: ep, addresses: addressesOf(ep, c), wait: retry.Wait, ownPause: retry.Backoff{First: minOwnPause, Most: maxOwnPause}}
	l, err := m.newLine()
	if err != nil {
		return nil, err
	}
	m.line.Store(l)
	return m, nil
}

func (m *Member) dialOptions(l *line) []grpc.DialOption {
	cfg, creds := &m.c.cfg, insecure.NewCredentials()
	if m.endpoint.tls {
		creds = tlscreds.NewTLS(cfg.TLS) // copies; nil means the system's roots
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(listening{creds, l}),
		grpc.WithContextDialer(l.connect),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithDefaultCallOptions(etcdapi.CallOptions()...),
		// The server ends connections that ping more often than every 5 s, or while idle.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: connectTotal}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: connectTotal,
		}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		// The windows have a fixed size. To size them itself, gRPC would ping the server whenever data
		// arrives, which costs both sides a message for most answers here. A full window delays a long
		// answer by a round trip.
		grpc.WithStaticStreamWindowSize(1 << 20),
		grpc.WithStaticConnWindowSize(4 << 20),
	}
	// The witness comes last, so that none of the user's interceptors is between it and the
	// transport.
	return append(append(opts, cfg.DialOptions...), grpc.WithChainUnaryInterceptor(witness))
}

// Endpoint is the member's address, for people to read: "host:port" or "unix:///path".
func (m *Member) Endpoint() string { return m.endpoint.name }

// Invoke implements grpc.ClientConnInterface.
func (m *Member) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	m.inflight.Add(1)
	defer m.done()
	var a *await
	if t, ok := ctx.Value(tryKey{}).(*try); ok {
		a = &t.await
	} else {
		a = new(await)
	}
	l := m.line.Load()
	l.begin(a)
	answered := false
	defer func() { l.done(a, answered) }() // also if a caller's interceptor panics
	err := l.conn.Invoke(ctx, method, args, reply, opts...)
	answered = isAnswer(err)
	return err
}

// NewStream implements grpc.ClientConnInterface. It waits for the connection, and until it has one it
// may be given up like a try. The stream counts as under way until it has ended. The outcome of a try
// that opens a stream is Unknown.
func (m *Member) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if t, ok := ctx.Value(tryKey{}).(*try); ok && t.begin() == nil {
		return nil, errTryEnded
	}
	m.inflight.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	l, a := m.line.Load(), &await{cancel: cancel, began: time.Now()}
	l.begin(a)
	var s *asking
	defer func() { // also if a caller's interceptor panics
		l.done(a, false)
		if s == nil {
			cancel()
			m.done()
		}
	}()
	stream, err := l.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		if why := a.why.Load(); why != nil {
			err = *why
		}
		return nil, err
	}
	s = &asking{ClientStream: stream, l: l}
	context.AfterFunc(stream.Context(), func() { s.settle(); cancel(); m.done() }) // no answer comes after its end
	return s, nil
}

// ready reports whether the line in use is connected, and is not being examined for its silence. A line
// that is not connected begins to connect.
func (m *Member) ready() bool {
	l := m.line.Load()
	switch l.conn.GetState() {
	case connectivity.Ready:
		return !l.silent.Load()
	case connectivity.Idle:
		l.conn.Connect()
	}
	return false
}

// close closes the line in use. Afterwards no other line can replace it.
func (m *Member) close() {
	m.mu.Lock()
	m.closed = true
	l := m.line.Load()
	m.mu.Unlock()
	l.close()
}

// done ends what Invoke or NewStream counted.
func (m *Member) done() {
	if m.inflight.Add(-1) == 0 && m.retired.Load() {
		m.close()
	}
}

// retire closes the connection once nothing is under way on it.
func (m *Member) retire() {
	m.retired.Store(true)
	if m.inflight.Load() == 0 {
		m.close()
	}
}

// Retired reports whether the member is no longer in the list. Whoever has a stream to it has to end it,
// since the connection is closed only when nothing is under way on it.
func (m *Member) Retired() bool { return m.retired.Load() }

// left reports whether a retired member's connection is closed.
func (m *Member) left() bool { return m.line.Load().conn.GetState() == connectivity.Shutdown }
