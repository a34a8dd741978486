package cluster

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// minSync is the least time between two refreshes of the member list.
const minSync = 100 * time.Millisecond

// keepSynced refreshes the list of members from time to time, until Close.
func (c *Cluster) keepSynced() {
	for backoff.Sleep(c.life, backoff.Spread(max(c.cfg.SyncEvery, minSync))) {
		if c.id.Load() != 0 { // nothing to do before; see Reach
			c.syncMembers()
		}
	}
}

// syncMembers replaces the endpoints by those that the cluster's voting members advertise. It uses a
// new endpoint only after that has answered. It removes an old one only if its member has left, or has
// another endpoint that answers. So the list never becomes empty, and an advertised address that cannot
// be reached replaces nothing.
func (c *Cluster) syncMembers() {
	var resp *pb.MemberListResponse
	err := c.Do(c.life, Request{Op: "member list", Repeat: Always, Local: true}, func(ctx context.Context, m *Member) (_ *pb.ResponseHeader, err error) {
		resp, err = etcdapi.MemberList(ctx, m, &pb.MemberListRequest{Linearizable: true})
		return resp.GetHeader(), err
	})
	if err != nil {
		if c.Err() == nil {
			c.log.Warn("etcd member list not refreshed", "error", err)
		}
		return
	}
	wanted := c.advertised(resp.Members)
	fresh := c.reachNew(wanted)
	c.replaceMembers(resp.Members, wanted, fresh)
}

// advertised returns the endpoints of all voting members that have started.
func (c *Cluster) advertised(members []*pb.Member) map[endpoint]bool {
	out := make(map[endpoint]bool)
	for _, m := range members {
		if m.IsLearner {
			continue
		}
		for _, u := range m.ClientURLs {
			ep, err := parseEndpoint(u, c.cfg.secure())
			if err != nil {
				c.leaveOut(redact(u), err)
				continue
			}
			out[ep] = true
		}
	}
	return out
}

// leaveOut logs why an advertised endpoint is not used, once for each reason.
func (c *Cluster) leaveOut(endpoint string, err error) {
	if said, ok := c.leftOut.Swap(endpoint, err.Error()); ok && said == err.Error() {
		return
	}
	c.log.Warn("advertised endpoint left out", "endpoint", endpoint, "error", err)
}

// reachNew connects to the wanted endpoints that are new, and returns those that answer.
func (c *Cluster) reachNew(wanted map[endpoint]bool) []*Member {
	list := c.list()
	answers := make(chan *Member)
	n := 0
	for ep := range wanted {
		if slices.ContainsFunc(list, func(m *Member) bool { return m.endpoint == ep }) {
			continue
		}
		m, err := newMember(ep, c)
		if err != nil {
			c.leaveOut(ep.name, err)
			continue
		}
		n++
		go func() { answers <- c.proven(m) }() // ends within probeTotal; waited for below
	}
	var fresh []*Member
	for range n {
		if m := <-answers; m != nil {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// proven returns m if it answers as a voting member of the cluster. Otherwise it closes m and returns
// nil.
func (c *Cluster) proven(m *Member) *Member {
	err := c.probe(m)
	if err == nil && !m.learner.Load() {
		return m
	}
	if err != nil && c.Err() == nil {
		c.leaveOut(m.Endpoint(), err)
	}
	m.close()
	return nil
}

// replaceMembers puts the new list in force.
func (c *Cluster) replaceMembers(members []*pb.Member, wanted map[endpoint]bool, fresh []*Member) {
	served := make(map[uint64]bool) // IDs of members for which a wanted endpoint answers
	next := slices.Clone(fresh)
	var rest []*Member
	for _, m := range c.list() {
		if wanted[m.endpoint] {
			next = append(next, m)
		} else {
			rest = append(rest, m)
		}
	}
	for _, m := range next {
		served[m.id.Load()] = true
	}
	var gone []*Member
	for _, m := range rest {
		id := m.id.Load()
		current := slices.ContainsFunc(members, func(p *pb.Member) bool { return p.ID == id })
		if current && !served[id] || len(next) == 0 {
			next = append(next, m)
			continue
		}
		gone = append(gone, m)
	}
	if len(fresh) > 0 || len(gone) > 0 {
		c.install(next, fresh, gone)
	}
}

// install makes next the list, unless the Cluster was closed meanwhile.
func (c *Cluster) install(next, fresh, gone []*Member) {
	c.mu.Lock()
	if c.shut.Load() {
		c.mu.Unlock()
		for _, m := range fresh {
			m.close()
		}
		return
	}
	c.members.Store(&next)
	c.leaving = append(slices.DeleteFunc(c.leaving, (*Member).left), gone...)
	c.mu.Unlock()
	for _, m := range gone {
		m.retire()
	}
	c.log.Info("etcd endpoints refreshed", "endpoints", names(next), "gone", names(gone))
}

func names(list []*Member) []string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.Endpoint()
	}
	return out
}
