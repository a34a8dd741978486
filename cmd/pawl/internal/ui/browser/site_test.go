package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/loopback"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A site is a cluster in memory, and a page of it that is served.
type site struct {
	*testing.T
	etcd   *etcdfake.Cluster
	opts   ui.Options
	port   *loopback.Port
	client *pawl.Client
	page   *ui.Page
	server *httptest.Server
}

func newSite(t *testing.T, o ui.Options) *site {
	t.Helper()
	browser(t) // or skip
	f := etcdfake.New(etcdfake.Options{})
	t.Cleanup(f.Close)
	port, err := loopback.Reserve()
	require.NoError(t, err)
	t.Cleanup(port.Release)
	o.Namespace, o.Cluster = "app/", "in memory"
	s := &site{T: t, etcd: f, opts: o, port: port}
	s.client = s.dial()
	s.start()
	t.Cleanup(func() {
		s.etcd.Heal()
		s.stop()
	})
	return s
}

// start starts the page, at the address that it had.
func (s *site) start() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	var err error
	s.page, err = ui.Open(ctx, s.client, s.opts)
	require.NoError(s, err)
	l, err := s.port.Listen()
	require.NoError(s, err)
	s.server = httptest.NewUnstartedServer(s.page)
	_ = s.server.Listener.Close()
	s.server.Listener = l
	s.server.Start()
}

func (s *site) stop() {
	s.page.Close()
	s.server.CloseClientConnections()
	s.server.Close()
}

func (s *site) url() string { return "http://" + s.port.String() }

func (s *site) dial() *pawl.Client {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	c, err := pawl.Dial(ctx, pawl.Config{
		Endpoints: s.etcd.Endpoints(), Namespace: "app/", DialOptions: []grpc.DialOption{s.etcd.DialOption()},
	})
	require.NoError(s, err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *site) session(owner string) *pawl.Session {
	s.Helper()
	session, err := s.dial().NewSession(context.Background(), lease.Options{Owner: owner, TTL: 5 * time.Minute})
	require.NoError(s, err)
	return session
}

func (s *site) holds(session *pawl.Session, name string) *lock.Held {
	s.Helper()
	h, err := lock.New(session, name, lock.Options{}).Acquire(context.Background())
	require.NoError(s, err)
	return h
}

// waits enqueues; the channel has the lock when it is acquired.
func (s *site) waits(session *pawl.Session, name string) chan *lock.Held {
	held := make(chan *lock.Held, 1)
	ctx, cancel := context.WithCancel(context.Background())
	s.Cleanup(cancel)
	go func() { // ends with the acquisition, or the test
		if h, err := lock.New(session, name, lock.Options{}).Acquire(ctx); err == nil {
			held <- h
		}
	}()
	return held
}

func (s *site) leads(session *pawl.Session, name, value string) *elect.Term {
	s.Helper()
	t, err := elect.New(session, name, elect.Options{}).Campaign(context.Background(), []byte(value))
	require.NoError(s, err)
	return t
}

func token(h *lock.Held) string { return fmt.Sprint(int64(h.Token())) }

func noWork(context.Context, *lock.Held) error { return nil }
