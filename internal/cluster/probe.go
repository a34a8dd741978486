package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/metadata"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// probeTotal bounds one probe of one member.
const probeTotal = 5 * time.Second

// probe queries the member for its cluster, its version, and whether it is a learner. If the cluster
// demands a token even for that, probe fetches one.
func (c *Cluster) probe(m *Member) error {
	ctx, cancel := context.WithTimeout(c.life, probeTotal)
	defer cancel()
	l := c.creds.any(m)
	resp, err := c.status(ctx, m, l)
	if IsTokenRefusal(err) && c.creds.user != "" {
		if l, err = c.creds.after(ctx, m, l, err); err != nil {
			return err
		}
		resp, err = c.status(ctx, m, l)
	}
	if err != nil {
		if passing(err) {
			m.move()
		}
		err = explain(m, err)
		m.failure.Store(&err)
		return err
	}
	again := m.foreign.Load() != 0
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

// status queries m for its status, again if its line is replaced meanwhile. ctx must end with the
// Cluster.
func (c *Cluster) status(ctx context.Context, m *Member, l *login) (*pb.StatusResponse, error) {
	ctx = metadata.NewOutgoingContext(ctx, l.md)
	for {
		line := m.line.Load()
		resp, err := etcdapi.Status(ctx, m, &pb.StatusRequest{})
		switch {
		case err == nil:
			return resp, nil
		case m.line.Load() == line || EndOf(ctx) != nil:
			return nil, plainEnd(c.life, err)
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

// warnOfVersion logs a warning, once for each member and version, about a server that breaks a rule
// (F13).
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
