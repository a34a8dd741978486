package etcdfake

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// watchEdit alters what a member's watch streams send.
type watchEdit struct {
	f func(*pb.WatchResponse) []*pb.WatchResponse
}

// EditWatches has f decide what is sent in place of each answer of the member's watch streams:
// none, one or several. f gets copies, one at a time for each stream, and may keep them to send
// later. lift ends it.
func (m *Member) EditWatches(f func(*pb.WatchResponse) []*pb.WatchResponse) (lift func()) {
	e := &watchEdit{f}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.edits = append(slices.Clone(m.edits), e)
	return func() {
		m.c.mu.Lock()
		defer m.c.mu.Unlock()
		m.edits = slices.DeleteFunc(slices.Clone(m.edits), func(x *watchEdit) bool { return x == e })
	}
}

func edited(edits []*watchEdit, r *pb.WatchResponse) []*pb.WatchResponse {
	out := []*pb.WatchResponse{r}
	for _, e := range edits {
		var next []*pb.WatchResponse
		for _, r := range out {
			next = append(next, e.f(etcdapi.Clone(r))...)
		}
		out = next
	}
	return out
}
