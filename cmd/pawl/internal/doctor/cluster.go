package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/tlsfiles"
)

// An endpoint is what one of --endpoints reports about itself.
type endpoint struct {
	name   string
	status *pb.StatusResponse // nil if it does not answer
	took   time.Duration      // the best of a few answers
	agreed bool               // it has given an answer that it can give only while most members run
	alone  bool               // it has not given it, though it could be queried
	err    error
}

func answering(ends []endpoint) (n int) {
	for _, e := range ends {
		if e.status != nil {
			n++
		}
	}
	return n
}

// probes is how often an endpoint is probed, to measure how long it takes.
const probes = 3

// endpoints probes each endpoint by itself, all at once.
func (d *doctor) endpoints(ctx context.Context, cfg pawl.Config, within time.Duration) []endpoint {
	ends := make([]endpoint, len(cfg.Endpoints))
	var files *tlsfiles.Files
	if cfg.TLSFiles != (pawl.TLSFiles{}) {
		files, _ = tlsfiles.Open(tlsfiles.Names(cfg.TLSFiles), tlsfiles.Labels{}) // cfg has been checked
	}
	var all sync.WaitGroup
	for i, name := range cfg.Endpoints {
		all.Go(func() { // ends with its requests
			ends[i] = endpoint{name: name}
			one := cluster.Config{Endpoints: []string{name}, Username: cfg.Username, Password: cfg.Password}
			if files != nil {
				one.Handshake = files.Client
			}
			ends[i].probe(ctx, one, within)
		})
	}
	all.Wait()
	for _, e := range ends {
		d.endpoint(e, haveQuorum(ends))
	}
	return ends
}

// haveQuorum reports whether most members run, as one of the endpoints has shown. That an endpoint knows
// a leader shows nothing, because for a while it still knows one that is gone.
func haveQuorum(ends []endpoint) bool {
	return slices.ContainsFunc(ends, func(e endpoint) bool { return e.agreed })
}

// lostQuorum reports whether no endpoint has shown that most members run, though one could have.
func lostQuorum(ends []endpoint) bool {
	return !haveQuorum(ends) && slices.ContainsFunc(ends, func(e endpoint) bool { return e.alone })
}

// probe connects to the endpoint, reads its status, and then makes a request that takes a quorum.
func (e *endpoint) probe(ctx context.Context, cfg cluster.Config, within time.Duration) {
	first, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := cluster.Dial(first, cfg)
	if err != nil {
		e.err = err
		return
	}
	defer c.Close()
	for range probes {
		began := time.Now()
		err := c.Do(first, cluster.Request{Op: "status", Repeat: cluster.Always, Local: true, Reads: true}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
			resp, err := pb.NewMaintenanceClient(m).Status(ctx, &pb.StatusRequest{})
			if err == nil {
				e.status = resp
			}
			return resp.GetHeader(), err
		})
		if took := time.Since(began); err == nil && (e.took == 0 || took < e.took) {
			e.took = took
		}
		e.err = err
	}
	if e.status == nil {
		return
	}
	second, cancel := context.WithTimeout(ctx, within) // a separate one: a slow member is no lost quorum
	defer cancel()
	err = c.Do(second, cluster.Request{Op: "list members", Repeat: cluster.Always, Local: true, Reads: true}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewClusterClient(m).MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		return resp.GetHeader(), err
	})
	e.agreed = err == nil
	e.alone = err != nil && !e.status.IsLearner && !cluster.IsFinal(err)
}

// endpoint checks an endpoint. quorum says whether most members run.
func (d *doctor) endpoint(e endpoint, quorum bool) {
	s := e.status
	switch {
	case s == nil && cli.RefusesUser(e.err):
		d.wrong("endpoint", e.name, fmt.Sprintf("refuses this user: %v", e.err), cli.CheckUser)
		return
	case s == nil && cluster.IsNoLeader(e.err):
		d.wrong("endpoint", e.name, "answers, and knows no leader", "most members have to run, and to reach each other: start the others, or check the network between them")
		return
	case s == nil:
		do := "start it, or check the network to it"
		if quorum {
			do += ", or take it out of --endpoints; the cluster works without it as long as most members answer"
		}
		d.wrong("endpoint", e.name, "does not answer: "+strings.ReplaceAll(e.err.Error(), "\n", "; "), do)
		return
	}
	role := "follower"
	switch {
	case s.IsLearner:
		role = "learner"
	case s.Leader == s.Header.MemberId:
		role = "leader"
	}
	d.ok("endpoint", e.name, "%s, etcd %s, answers in %s", role, s.Version, cli.Span(e.took))
	if s.IsLearner {
		d.odd("endpoint", e.name, "is a learner, and serves no requests", "promote it (etcdctl member promote), or take it out of --endpoints")
	}
	if why := cluster.VersionFault(s.Version); why != "" {
		d.wrong("version", e.name, fmt.Sprintf("etcd %s: %s", s.Version, why), "upgrade this member")
	}
	if why := cluster.SecurityFault(s.Version); why != "" {
		d.odd("security", e.name, fmt.Sprintf("etcd %s does not enforce all permissions of users: %s", s.Version, why),
			"upgrade this member to 3.5.33, 3.6.14, 3.7.1 or later; locks are not affected")
	}
	d.room(e)
}

// full is the share of its quota at which a database is reported.
const full = 0.8

// room checks how full the database is.
func (d *doctor) room(e endpoint) {
	size, quota := e.status.DbSize, e.status.DbSizeQuota
	if quota <= 0 || float64(size) < full*float64(quota) {
		return
	}
	d.odd("alarm", e.name, fmt.Sprintf("its database has %d MB of %d MB; when it is full, no lock can be acquired", size>>20, quota>>20),
		"compact and defragment (etcdctl compact, etcdctl defrag), or raise --quota-backend-bytes")
}

// cluster compares what the endpoints report.
func (d *doctor) cluster(ends []endpoint) {
	ids := map[uint64][]string{}
	leaders := map[uint64]bool{}
	var leaderless []string
	for _, e := range ends {
		if e.status == nil {
			continue
		}
		ids[e.status.Header.ClusterId] = append(ids[e.status.Header.ClusterId], e.name)
		if e.status.Leader == 0 {
			leaderless = append(leaderless, e.name)
		} else {
			leaders[e.status.Leader] = true
		}
	}
	switch {
	case len(ids) > 1:
		var said []string
		for id, names := range ids {
			said = append(said, fmt.Sprintf("%x has %s", id, strings.Join(names, ", ")))
		}
		slices.Sort(said)
		d.wrong("cluster", "", "the endpoints belong to different clusters: "+strings.Join(said, "; "),
			"correct --endpoints: locks in one cluster exclude nobody in another")
	case len(leaderless) > 0:
		d.wrong("cluster", "", "no leader is known at "+strings.Join(leaderless, ", "),
			"make sure that most members run and reach each other: without a leader no lease is renewed")
	case lostQuorum(ends):
		d.wrong("cluster", "", "no endpoint answers what takes most members",
			"make sure that most members run and reach each other: until then no lock is acquired, and no lease renewed")
	case len(leaders) > 1:
		d.odd("cluster", "", "the endpoints name different leaders", "an election may be in progress: run doctor again; if this persists, a member is cut off from its peers")
	default:
		for id := range ids {
			d.ok("cluster", "", "%x: all endpoints belong to it and know the leader", id)
		}
	}
	for _, e := range ends {
		if e.status != nil && cluster.Restored(e.status) {
			d.ok("cluster", "", "was restored from a backup, and serves revision %d after %d entries of its log", e.status.Header.Revision, e.status.RaftIndex)
			return
		}
	}
}

// members compares the cluster's members with the endpoints.
func (d *doctor) members(ctx context.Context, c *pawl.Client, ends []endpoint) error {
	var resp *pb.MemberListResponse
	if err := d.call(ctx, c, cluster.Request{Op: "member list", Reads: true}, func(ctx context.Context, m *cluster.Member) (h *pb.ResponseHeader, err error) {
		resp, err = pb.NewClusterClient(m).MemberList(ctx, &pb.MemberListRequest{})
		return resp.GetHeader(), err
	}); err != nil {
		return err
	}
	asked := map[uint64]bool{}
	for _, e := range ends {
		if e.status != nil {
			asked[e.status.Header.MemberId] = true
		}
	}
	var missing []string
	for _, m := range resp.Members {
		if !asked[m.ID] && !m.IsLearner {
			missing = append(missing, fmt.Sprintf("%q at %s", m.Name, strings.Join(m.ClientURLs, ", ")))
		}
	}
	if len(missing) == 0 {
		d.ok("cluster", "", "has %s, and each was checked", members(len(resp.Members)))
		return nil
	}
	d.odd("cluster", "", fmt.Sprintf("has %s; not checked, or without an answer: %s", members(len(resp.Members)), strings.Join(missing, "; ")),
		"list all members in --endpoints, so that pawl can use another when one fails")
	return nil
}

func members(n int) string {
	if n == 1 {
		return "one member, and no other if it fails"
	}
	return fmt.Sprintf("%d members", n)
}

// clusterOf names the cluster that the endpoints are of, as a header does.
func clusterOf(ends []endpoint) *pb.ResponseHeader {
	for _, e := range ends {
		if e.status != nil {
			return &pb.ResponseHeader{ClusterId: e.status.Header.ClusterId}
		}
	}
	return nil
}

// call makes one request.
func (d *doctor) call(ctx context.Context, c *pawl.Client, r cluster.Request, f func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error)) error {
	host, err := hooks.HostOf(c)
	if err != nil {
		return err
	}
	r.Repeat, r.Local = cluster.Always, true
	return host.Cluster.Do(ctx, r, f)
}

// alarms queries the alarms. A user who may not query them learns them only from Status.
func (d *doctor) alarms(ctx context.Context, c *pawl.Client, ends []endpoint) error {
	var resp *pb.AlarmResponse
	err := d.call(ctx, c, cluster.Request{Op: "alarm list", Reads: true}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		var err error
		if resp, err = pb.NewMaintenanceClient(m).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET}); err == nil && resp.Header == nil {
			return clusterOf(ends), nil // etcd 3.4 leaves the header out
		}
		return resp.GetHeader(), err
	})
	if cluster.IsPermissionDenied(err) {
		d.odd("alarm", "", "this user may not query alarms", "run doctor as root")
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range resp.Alarms {
		do := "compact and defragment each member, then etcdctl alarm disarm; until then no lock can be acquired, but held locks can be released"
		if a.Alarm == pb.AlarmType_CORRUPT {
			do = "this member's data differ from the others': stop it, and replace it with a new one (etcdctl member remove, member add)"
		}
		d.wrong("alarm", fmt.Sprintf("member %x", a.MemberID), a.Alarm.String(), do)
	}
	if len(resp.Alarms) == 0 {
		d.ok("alarm", "", "none")
	}
	return nil
}
