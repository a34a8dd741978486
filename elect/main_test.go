package elect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	requests "github.com/pawl-locks/pawl/internal/testkit/named"
	"github.com/pawl-locks/pawl/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a fake cluster in a bubble.
type fixture struct {
	*etcdfake.Cluster
	t   *testing.T
	ctx context.Context
}

// inBubble runs f in a bubble with a cluster of three members.
func inBubble(t *testing.T, f func(w *fixture)) { inBubbleOf(t, etcdfake.Options{Members: 3}, f) }

func inBubbleOf(t *testing.T, o etcdfake.Options, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.New(o)
		t.Cleanup(c.Close)
		f(&fixture{Cluster: c, t: t, ctx: t.Context()})
	})
}

// client connects to the cluster until the end of the test.
func (w *fixture) client() *pawl.Client { return w.clientWith(pawl.Config{}) }

func (w *fixture) clientWith(cfg pawl.Config) *pawl.Client {
	w.t.Helper()
	cfg.Endpoints = w.Endpoints()
	cfg.DialOptions = []grpc.DialOption{w.DialOption(), requests.Requests()}
	c, err := pawl.Dial(w.ctx, cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// session makes a session of a client of its own.
func (w *fixture) session() *pawl.Session { return w.sessionOn(w.client()) }

func (w *fixture) sessionOn(c *pawl.Client) *pawl.Session {
	w.t.Helper()
	s, err := c.NewSession(w.ctx, lease.Options{TTL: 6 * time.Second})
	require.NoError(w.t, err)
	return s
}

// campaign wins the name at once.
func (w *fixture) campaign(s *pawl.Session, name, value string) *elect.Term {
	w.t.Helper()
	t, err := elect.New(s, name, elect.Options{}).Campaign(w.ctx, []byte(value))
	require.NoError(w.t, err)
	return t
}
