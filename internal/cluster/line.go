package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	tlscreds "google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// line is one gRPC connection, and the state by which it is noticed that the connection swallows what
// is sent.
type line struct {
	m    *Member
	conn *grpc.ClientConn
	life context.Context // ends with conn
	end  context.CancelFunc

	asked   atomic.Bool   // something was sent since the last read, or events were read instead of an answer
	reads   atomic.Uint32 // how often a read cleared asked
	due     atomic.Bool   // a call or a message was sent since the last answer
	answers atomic.Uint32 // how many answers came
	events  atomic.Uint32 // how often events came while an answer was due
	watched atomic.Bool   // whether a goroutine watches the line
	silent  atomic.Bool   // the line is examined
	serves  atomic.Bool   // the line is a spare, and has answered
	open    atomic.Int64  // calls and messages that have no answer yet
	mute    atomic.Bool   // the last connection, or attempt at one, ended because the other side or the resolver was silent, and no answer has come since

	wire atomic.Pointer[wire] // the last connection that was made, or nil

	mu    sync.Mutex
	tries map[*try]struct{}
}

func (m *Member) newLine() (*line, error) {
	l := &line{m: m, tries: make(map[*try]struct{})}
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

// begin records that a call begins, which expects an answer. t is its try; it may be nil.
func (l *line) begin(t *try) {
	l.open.Add(1)
	l.due.Store(true)
	if t != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tries[t] = struct{}{}
	}
}

// done records that a call has ended, and whether with an answer.
func (l *line) done(t *try, answered bool) {
	if t != nil {
		l.mu.Lock()
		delete(l.tries, t)
		l.mu.Unlock()
	}
	if answered {
		l.answered()
	}
	l.open.Add(-1)
}

// answered records an answer to what was sent.
func (l *line) answered() {
	l.due.Store(false)
	l.answers.Add(1)
	if l.mute.Load() {
		l.mute.Store(false)
	}
	if w := l.wire.Load(); w != nil && !w.served.Load() {
		w.served.Store(true)
		l.m.addresses.serve(w.Conn)
	}
}

// ask records that something should now be read, and has the line watched.
func (l *line) ask() {
	if !l.asked.Load() {
		l.asked.Store(true)
	}
	if !l.watched.Load() && l.watched.CompareAndSwap(false, true) {
		l.watch()
	}
}

// heard counts what was read on a line.
type heard struct{ reads, answers, events uint32 }

func (l *line) heard() heard {
	return heard{l.reads.Load(), l.answers.Load(), l.events.Load()}
}

// lifeSince reports whether what was read since then shows that the line delivers both ways. An answer
// does, and so do bytes, unless they brought events while an answer was due.
func (h heard) lifeSince(then heard) bool {
	return h.answers != then.answers || h.reads != then.reads && h.events == then.events
}

// any reports whether such is true of one of the tries under way.
func (l *line) any(such func(*try) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.tries {
		if such(t) {
			return true
		}
	}
	return false
}

// giveUp ends, with the error why, the tries under way for which such is true.
func (l *line) giveUp(why *error, such func(*try) bool) {
	l.any(func(t *try) bool {
		if such(t) {
			t.why.CompareAndSwap(nil, why)
			// It calls methods of the caller's context, which may stand still.
			go t.cancel()
		}
		return false
	})
}

func everyTry(*try) bool { return true }

// busy reports whether something was sent since the last read, or a try is under way.
func (l *line) busy() bool { return l.asked.Load() || l.any(everyTry) }

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
	l.begin(nil)
	_, err := healthpb.NewHealthClient(l.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&p))
	answered := p.Addr != nil && isAnswer(err)
	l.done(nil, answered)
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

// asking is a stream whose messages have answers.
type asking struct {
	grpc.ClientStream
	l    *line
	sent atomic.Bool // a message was sent since the last answer
}

func (s *asking) SendMsg(m any) error {
	if s.sent.CompareAndSwap(false, true) {
		s.l.open.Add(1)
	}
	s.l.due.Store(true)
	err := s.ClientStream.SendMsg(m)
	if s.Context().Err() != nil { // its end may have been recorded before
		s.settle()
	}
	return err
}

func (s *asking) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch r, ok := m.(*pb.WatchResponse); {
	case err == nil && ok && len(r.Events) > 0:
		if s.l.due.Load() { // events are unsolicited, and no answer while one is due
			s.l.events.Add(1)
			s.l.ask()
		}
		return nil
	case err == nil && s.sent.Load():
		s.l.answered()
	}
	s.settle()
	return err
}

// settle records that no answer is awaited.
func (s *asking) settle() {
	if s.sent.CompareAndSwap(true, false) {
		s.l.open.Add(-1)
	}
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
	return m.addresses.connect(ctx)
}

// soFar says of a line that has not answered yet what is known, or "".
func (l *line) soFar() string {
	switch pending := l.m.addresses.pending(); {
	case pending != "":
		return pending
	case l.wire.Load() == nil:
		return nobody
	case l.reads.Load() == 0:
		return speechless(l.m.endpoint.tls)
	}
	return ""
}

// listening are transport credentials that let a line see when bytes are sent and read, below
// TLS, so that a silent handshake is noticed too. Each handshake calls Config.Handshake, if there is
// one.
type listening struct {
	tlscreds.TransportCredentials
	l *line
}

func (c listening) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, tlscreds.AuthInfo, error) {
	w := &wire{Conn: raw, l: c.l}
	c.l.wire.Store(w)
	c.l.asked.Store(false)
	creds, m := c.TransportCredentials, c.l.m
	if config := m.c.cfg.Handshake; config != nil { // then every endpoint uses TLS
		creds = tlscreds.NewTLS(config(m.c.log))
	}
	conn, info, err := creds.ClientHandshake(ctx, authority, w)
	if err != nil {
		m.addresses.fail(raw)
	}
	if refused := new(tls.CertificateVerificationError); errors.As(err, &refused) {
		m.c.Failed(m, err)
	}
	return conn, info, err
}

func (c listening) Clone() tlscreds.TransportCredentials {
	return listening{c.TransportCredentials.Clone(), c.l}
}

// wire is a connection of a line.
type wire struct {
	net.Conn
	l      *line
	served atomic.Bool // a request on it was answered
	reads  atomic.Bool // a read is under way, or has failed
	failed atomic.Bool // a read or a write has
	ended  atomic.Bool // the first that failed did so because the other side had ended the connection
}

func (w *wire) Read(b []byte) (int, error) {
	w.reads.Store(true)
	n, err := w.Conn.Read(b)
	w.reads.Store(err != nil)
	w.note(err)
	if n > 0 && w.l.asked.Load() {
		w.l.reads.Add(1)
		w.l.asked.Store(false)
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	w.l.ask()
	n, err := w.Conn.Write(b)
	w.note(err)
	return n, err
}

// note records err, of a read or a write. The first decides: a write after a silence fails as if the
// other side had ended the connection.
func (w *wire) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) { // gRPC closes what is below
		return
	}
	if w.failed.CompareAndSwap(false, true) && !isSilence(err) {
		w.ended.Store(true)
	}
}

func (w *wire) Close() error {
	w.l.asked.Store(false)
	w.l.mute.Store(w.reads.Load() && !w.ended.Load()) // this side gives up, and has waited for the other
	if !w.served.Load() {
		w.l.m.addresses.fail(w.Conn)
	}
	return w.Conn.Close()
}

// isSilence reports whether err, of a connection or an attempt at one, means that nobody answers. The
// operating system says so after a while if the machine is gone.
func isSilence(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout() || errors.Is(err, syscall.EHOSTUNREACH)
}
