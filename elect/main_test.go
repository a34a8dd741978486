package elect_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// fixture is a fake cluster in a bubble.
type fixture struct {
	*etcdfake.Cluster
	kit *inmemory.Fixture
	t   *testing.T
	ctx context.Context
}

// inBubble runs f in a bubble with a cluster of three members.
func inBubble(t *testing.T, f func(w *fixture)) { inBubbleOf(t, etcdfake.Options{Members: 3}, f) }

func inBubbleOf(t *testing.T, o etcdfake.Options, f func(w *fixture)) {
	t.Helper()
	inmemory.InBubble(t, o, func(kit *inmemory.Fixture) {
		f(&fixture{Cluster: kit.Cluster, kit: kit, t: kit.T, ctx: kit.Context()})
	})
}

// client connects to the cluster until the end of the test.
func (w *fixture) client() *pawl.Client { return w.kit.Client() }

func (w *fixture) clientWith(cfg pawl.Config) *pawl.Client { return w.kit.Dial(cfg) }

// session makes a session on a new client.
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
