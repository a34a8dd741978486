package etcdtest

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// AddMember adds a member, and returns it when it serves.
func (c *Cluster) AddMember(t testing.TB) *Member {
	t.Helper()
	m, err := c.newMember()
	if err != nil {
		t.Fatalf("etcdtest: add a member: %v", err)
	}
	c.operate(t, "add a member", func(ctx context.Context, leader *Member) error {
		return announce(ctx, leader, m)
	})
	m.initial, m.state = initialCluster(c.Members()), "existing"
	if err = m.launch(); err == nil {
		err = m.ready(startTimeout)
	}
	if err != nil {
		t.Fatalf("etcdtest: add a member: %v", err)
	}
	return m
}

// announce makes m part of the cluster, unless it is already.
func announce(ctx context.Context, leader, m *Member) error {
	cluster := pb.NewClusterClient(leader.conn)
	list, err := cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	if err != nil {
		return err
	}
	for _, known := range list.Members {
		for _, url := range known.PeerURLs {
			if url == m.peerURL() {
				return nil
			}
		}
	}
	_, err = cluster.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{m.peerURL()}})
	return err
}

// RemoveMember removes a member from the cluster and ends its process. Its endpoint then refuses
// connections.
func (c *Cluster) RemoveMember(t testing.TB, m *Member) {
	t.Helper()
	id := m.ID()
	c.operate(t, "remove "+m.name, func(ctx context.Context, leader *Member) error {
		cluster := pb.NewClusterClient(leader.conn)
		list, err := cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		if err != nil {
			return err
		}
		for _, known := range list.Members {
			if known.ID == id {
				_, err = cluster.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
				return err
			}
		}
		return nil
	})
	m.Kill()
	m.proxy.Refuse()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.members {
		if other == m {
			c.members = append(c.members[:i:i], c.members[i+1:]...)
			c.gone = append(c.gone, m)
			return
		}
	}
	t.Fatalf("etcdtest: remove %s: not a member", m.name)
}

// ReplaceMember removes a member and adds a new one, with another endpoint, and
// returns it.
func (c *Cluster) ReplaceMember(t testing.TB, m *Member) *Member {
	t.Helper()
	c.RemoveMember(t, m)
	return c.AddMember(t)
}
