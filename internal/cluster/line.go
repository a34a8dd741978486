package cluster

import (
	"context"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// line is one gRPC connection, and what awaits an answer on it, by which it is noticed that the connection
// swallows what is sent.
type line struct {
	m    *Member
	conn *grpc.ClientConn
	life context.Context // ends with conn
	end  context.CancelFunc

	awaits awaits
	events atomic.Int64         // how many messages with events were read
	silent atomic.Bool          // the line is examined
	serves atomic.Bool          // the line is a spare, and has answered
	mute   atomic.Bool          // the last connection, or attempt at one, ended because the other side or the resolver was silent, and no answer has come since
	wire   atomic.Pointer[wire] // the last connection that was made, or nil
}

func (m *Member) newLine() (*line, error) {
	l := &line{m: m}
	conn, err := grpc.NewClient(m.endpoint.target, m.dialOptions(l)...)
	if err != nil {
		return nil, err
	}
	l.conn = conn
	l.life, l.end = context.WithCancel(m.c.life)
	return l, nil
}

// close ends everything on the line.
func (l *line) close() {
	l.end()
	_ = l.conn.Close() // a second Close returns an error, and is harmless
}

// blame marks the address of the line as failed, so that others are preferred.
func (l *line) blame() {
	if w := l.wire.Load(); w != nil {
		l.m.addresses.fail(w.Conn)
	}
}

// disown ends the connection if another cluster answers on it, at an address that the resolver did not
// list. That says nothing of the endpoint: its member may have moved, and its old address may be another
// cluster's now. It reports whether it has ended the connection.
func (l *line) disown() bool {
	w := l.wire.Load()
	if w == nil || !l.m.addresses.forget(w.Conn) {
		return false
	}
	_ = w.Conn.Close() // closing it again is harmless
	return true
}

// answered records that the address in use serves.
func (l *line) answered() {
	if l.mute.Load() {
		l.mute.Store(false)
	}
	if w := l.wire.Load(); w != nil && !w.served.Load() {
		w.served.Store(true)
		l.m.addresses.serve(w.Conn)
	}
}

var (
	// errMute is the error of a try whose connection was silent while another answered.
	errMute = status.Error(codes.Unavailable, "the connection is silent, while another answers")
	// errReplaced is the error of a try whose connection was silent while a new one to the same
	// member answered.
	errReplaced = status.Error(codes.Unavailable, "the connection was silent, and has been replaced")
	// errElected is the error of a try that was sent before the present leader was elected: its
	// predecessor may have lost it.
	errElected = status.Error(codes.Unavailable, "another leader was elected meanwhile, so it may be lost")
)

// health makes a request that a member answers without the others, and reports whether it did. Any
// answer counts, even a refusal.
func (l *line) health(ctx context.Context) bool {
	var p peer.Peer
	a := new(await)
	l.begin(a)
	_, err := healthpb.NewHealthClient(l.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&p))
	answered := p.Addr != nil && isAnswer(err)
	l.done(a, answered)
	return answered
}

// isAnswer reports whether err, of a call, is certainly the server's. A status that this side may have
// made does not count.
func isAnswer(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return false
	}
	return true
}

// connect is the dialer of the line's connections.
func (l *line) connect(ctx context.Context, _ string) (net.Conn, error) {
	dial := l.m.connect
	if path, ok := strings.CutPrefix(l.m.endpoint.name, "unix://"); ok {
		dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	}
	conn, err := dial(ctx)
	if err != nil {
		l.mute.Store(isSilence(err) || isTemporary(err))
	}
	return conn, err
}

// connect dials the member by name. Once the cluster is known, that takes no longer than a request may: an address that
// is silent then may be gone, and the resolver may list another.
func (m *Member) connect(ctx context.Context) (net.Conn, error) {
	if m.c.id.Load() != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.TryFor())
		defer cancel()
	}
	return m.addresses.connect(ctx, m.patience())
}

// soFar says of a line that has not answered yet what is known, or "".
func (l *line) soFar() string {
	switch pending := l.m.addresses.pending(); {
	case pending != "":
		return pending
	case l.wire.Load() == nil:
		return nobody
	case l.wire.Load().got.Load() == 0:
		return speechless(l.m.endpoint.tls)
	}
	return ""
}
