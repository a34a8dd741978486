package etcd

import (
	"bytes"
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// holds evaluates one comparison, or for a range one for every key in it. A key that does not exist
// compares as zero, but never equal to any value.
func (v View) holds(c *pb.Compare) bool {
	keys := v.Keys(string(c.Key), string(c.RangeEnd), v.Rev)
	if len(keys) == 0 {
		return c.Target != pb.Compare_VALUE && compare(c, version{})
	}
	for _, k := range keys {
		at, _ := v.At(k, v.Rev)
		if !compare(c, at) {
			return false
		}
	}
	return true
}

func compare(c *pb.Compare, have version) bool {
	var d int
	switch c.Target {
	case pb.Compare_VALUE:
		d = bytes.Compare(have.value, c.GetValue())
	case pb.Compare_CREATE:
		d = cmp.Compare(have.create, c.GetCreateRevision())
	case pb.Compare_MOD:
		d = cmp.Compare(have.mod, c.GetModRevision())
	case pb.Compare_VERSION:
		d = cmp.Compare(have.ver, c.GetVersion())
	case pb.Compare_LEASE:
		d = cmp.Compare(have.lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return d == 0
	case pb.Compare_NOT_EQUAL:
		return d != 0
	case pb.Compare_GREATER:
		return d > 0
	case pb.Compare_LESS:
		return d < 0
	}
	return true
}
