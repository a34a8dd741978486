package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	tlscreds "google.golang.org/grpc/credentials"
)

// listening are transport credentials that let a line see its connections, below TLS. Each handshake calls
// Config.Handshake, if there is one.
type listening struct {
	tlscreds.TransportCredentials
	l *line
}

func (c listening) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, tlscreds.AuthInfo, error) {
	w := &wire{Conn: raw, l: c.l}
	c.l.wire.Store(w)
	c.l.awaits.restart()
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
	served atomic.Bool  // a request on it was answered
	got    atomic.Int64 // how many bytes were read
	reads  atomic.Bool  // a read is under way, or has failed
	failed atomic.Bool  // a read or a write has
	ended  atomic.Bool  // the first that failed did so because the other side had ended the connection
	closed atomic.Bool  // by this side
}

func (w *wire) Read(b []byte) (int, error) {
	w.reads.Store(true)
	n, err := w.Conn.Read(b)
	w.reads.Store(err != nil)
	w.note(err)
	w.got.Add(int64(n))
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
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
	w.closed.Store(true)
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
