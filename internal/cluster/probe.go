package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// probeTotal bounds one look at one member.
const probeTotal = 5 * time.Second

// probe asks the member who it is: the cluster, its version, whether it is a learner. Where the
// cluster demands a token even for that, it gets one.
func (c *Cluster) probe(ctx context.Context, m *Member) error {
	ctx, cancel := context.WithTimeout(ctx, probeTotal)
	defer cancel()
	g := c.creds.current.Load()
	if g == nil {
		g = c.creds.bare
	}
	resp, err := c.status(ctx, m, g)
	if IsTokenRefusal(err) && c.creds.user != "" {
		c.TokenRefused(g.token)
		if g, err = c.fetch(ctx, m); err != nil {
			return err
		}
		resp, err = c.status(ctx, m, g)
	}
	if err != nil {
		return explain(m, err)
	}
	again := m.isForeign()
	if err := c.Check(m, resp.Header, 0, false); err != nil {
		if again && errors.Is(err, errForeign) {
			m.foreign.Store(confirmed)
		}
		return err
	}
	m.checked.Store(true)
	c.judgeVersion(m, resp.Version)
	if resp.IsLearner {
		c.foundLearner(m)
	} else if m.learner.Swap(false) {
		c.log.Info("etcd member is no longer a learner", "endpoint", m.Endpoint())
	}
	return nil
}

func (c *Cluster) status(ctx context.Context, m *Member, g *grant) (*pb.StatusResponse, error) {
	return pb.NewMaintenanceClient(m).Status(metadata.NewOutgoingContext(ctx, g.md), &pb.StatusRequest{})
}

// foundLearner leaves the member out until it is promoted.
func (c *Cluster) foundLearner(m *Member) {
	if !m.learner.Swap(true) {
		c.log.Info("etcd member is a learner: left out until it is promoted", "endpoint", m.Endpoint())
		c.nudge()
	}
}

// judgeVersion warns, once for each member and version, of servers that break a rule (F13).
func (c *Cluster) judgeVersion(m *Member, version string) {
	why := VersionTrouble(version)
	if why == "" {
		return
	}
	if old := m.warned.Swap(&version); old != nil && *old == version {
		return
	}
	c.log.Warn(fmt.Sprintf("etcd %s: %s", version, why), "endpoint", m.Endpoint(), "version", version)
}
