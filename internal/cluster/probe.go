package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// probeTotal bounds one probe of one member.
const probeTotal = 5 * time.Second

// probe queries the member for its identity: the cluster, its version, whether it is a learner.
// If the cluster demands a token even for that, probe fetches one.
func (c *Cluster) probe(ctx context.Context, m *Member) error {
	until := time.Now().Add(probeTotal)
	l := c.creds.any(m)
	resp, err := c.status(ctx, m, l, until)
	if IsTokenRefusal(err) && c.creds.user != "" {
		if l, err = c.creds.after(ctx, m, l, err, until); err != nil {
			return err
		}
		resp, err = c.status(ctx, m, l, until)
	}
	if err != nil {
		if passing(err) {
			m.move()
		}
		m.failure.Store(&err)
		return explain(m, err)
	}
	again := m.isForeign()
	if err := c.Check(m, resp.Header, 0, false); err != nil {
		if again && errors.Is(err, errForeign) {
			m.foreign.Store(confirmed)
		}
		return err
	}
	m.nests.Store(nestsAs(resp.Version))
	m.checked.Store(true)
	m.failure.Store(nil)
	c.warnOfVersion(m, resp.Version)
	if resp.IsLearner {
		c.foundLearner(m)
	} else if m.learner.Swap(false) {
		c.log.Info("etcd member is no longer a learner", "endpoint", m.Endpoint())
	}
	return nil
}

func (c *Cluster) status(ctx context.Context, m *Member, l *login, until time.Time) (*pb.StatusResponse, error) {
	bound, cancel := context.WithDeadline(metadata.NewOutgoingContext(ctx, l.md), until)
	defer cancel()
	for {
		line := m.line.Load()
		resp, err := pb.NewMaintenanceClient(m).Status(bound, &pb.StatusRequest{})
		switch {
		case err == nil:
			return resp, nil
		case m.line.Load() == line || EndOf(bound) != nil:
			return nil, plainEnd(ctx, err)
		}
	}
}

// foundLearner excludes the member until it is promoted.
func (c *Cluster) foundLearner(m *Member) {
	if !m.learner.Swap(true) {
		c.log.Info("etcd member is a learner: left out until it is promoted", "endpoint", m.Endpoint())
		c.nudge()
	}
}

// warnOfVersion logs a warning, once for each member and version, about servers that break a
// rule (F13).
func (c *Cluster) warnOfVersion(m *Member, version string) {
	why := VersionFault(version)
	if why == "" {
		return
	}
	if old := m.warned.Swap(&version); old != nil && *old == version {
		return
	}
	c.log.Warn(fmt.Sprintf("etcd %s: %s", version, why), "endpoint", m.Endpoint(), "version", version)
}
