package cluster

import (
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// ID is the cluster_id that the first answer pinned.
func (c *Cluster) ID() uint64 { return c.id.Load() }

// RaftTerm is the highest raft_term that any member of the cluster has shown.
func (c *Cluster) RaftTerm() uint64 { return c.raftTerm.Load() }

var errNoHeader = errors.New("the answer has no header: not an etcd server")

// errForeign is an answer of another cluster.
var errForeign = errors.New("the answer is another cluster's")

// Check validates the header of an answer from m, and records it.
//
// floor is the highest revision as it was when the request was sent. linearizable says that the
// answer's revision is at least that of everything acknowledged before the request was sent. That holds
// for transactions that contain a Range, for linearizable ranges, and for what goes through raft. It
// does not hold for LeaseKeepAlive, watches, Status and LeaseTimeToLive.
//
// Guarantee 6 of the package says what follows from an answer that does not fit. One that fits raises
// the highest raft term, and, if linearizable, the highest revision.
func (c *Cluster) Check(m *Member, h *pb.ResponseHeader, floor int64, linearizable bool) error {
	if h == nil {
		return fmt.Errorf("%s: %w", m.Endpoint(), errNoHeader)
	}
	if err := c.checkID(m, h.ClusterId); err != nil {
		return err
	}
	m.id.Store(h.MemberId)
	raise(&c.raftTerm, h.RaftTerm)
	if !linearizable {
		return nil
	}
	if h.Revision <= 0 { // etcd's revisions begin at 1, so the header was not filled in
		return fmt.Errorf("%s: the answer has no revision", m.Endpoint())
	}
	if h.Revision < floor {
		err := fmt.Errorf("%w: %s answers at revision %d, after %d was seen", ErrChanged, m.Endpoint(), h.Revision, floor)
		c.end(err)
		return err
	}
	raise(&c.revision, h.Revision)
	return nil
}

// checkID pins the first cluster_id, and refuses all others.
func (c *Cluster) checkID(m *Member, id uint64) error {
	if id == 0 {
		return fmt.Errorf("%s: %w", m.Endpoint(), errNoHeader)
	}
	if c.id.CompareAndSwap(0, id) {
		return nil
	}
	pinned := c.id.Load()
	if id == pinned {
		if m.foreign.Load() != 0 && m.foreign.Swap(0) != 0 {
			c.log.Info("endpoint belongs to this etcd cluster again", "endpoint", m.Endpoint())
		}
		return nil
	}
	if m.line.Load().disown() {
		return fmt.Errorf("%s: %w (%x instead of %x) at an address of before", m.Endpoint(), errForeign, id, pinned)
	}
	if m.foreign.CompareAndSwap(0, 1) {
		c.log.Error("endpoint set aside: it belongs to another etcd cluster",
			"endpoint", m.Endpoint(), "cluster_id", hex(id), "want_cluster_id", hex(pinned))
		c.nudge()
	}
	return fmt.Errorf("%s: %w (%x instead of %x)", m.Endpoint(), errForeign, id, pinned)
}

// confirmed is how many foreign answers in a row prove that an endpoint is another cluster's: one to a
// request, and one to a probe.
const confirmed = 2

// noneIsOurs reports whether each endpoint has given at least answers foreign answers in a row.
func (c *Cluster) noneIsOurs(answers int32) bool {
	return !slices.ContainsFunc(c.list(), func(m *Member) bool { return m.foreign.Load() < answers })
}

// endIfForeign ends the Cluster if every endpoint belongs to another cluster. The keeper calls
// it after it has probed all of them.
func (c *Cluster) endIfForeign() {
	if c.id.Load() != 0 && c.noneIsOurs(confirmed) {
		c.end(fmt.Errorf("%w: every endpoint answers as another cluster than %x", ErrChanged, c.id.Load()))
	}
}

func hex(id uint64) string { return fmt.Sprintf("%x", id) }

// raise makes v at least to.
func raise[T int64 | uint64](v interface {
	Load() T
	CompareAndSwap(old, to T) bool
}, to T) {
	for old := v.Load(); old < to && !v.CompareAndSwap(old, to); old = v.Load() {
	}
}
