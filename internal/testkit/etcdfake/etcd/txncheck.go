package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// These are the checks that a request passes before anything reads the state.

// CheckRange refuses a malformed read.
func CheckRange(r *pb.RangeRequest) error {
	_, okOrder := pb.RangeRequest_SortOrder_name[int32(r.GetSortOrder())]
	_, okTarget := pb.RangeRequest_SortTarget_name[int32(r.GetSortTarget())]
	switch {
	case len(r.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case !okOrder || !okTarget:
		return etcdapi.ErrInvalidSortOption
	}
	return nil
}

// CheckPut refuses a malformed put.
func CheckPut(r *pb.PutRequest) error {
	switch {
	case len(r.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

// CheckDelete refuses a malformed deletion.
func CheckDelete(r *pb.DeleteRangeRequest) error {
	if len(r.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// CheckTxn bounds the operations. Each level takes its number from what the levels below may use.
func CheckTxn(r *pb.TxnRequest, maxOps int) error {
	ops := max(len(r.Compare), len(r.Success), len(r.Failure))
	if ops > maxOps {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if err := checkOp(op, maxOps-ops); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, maxOps int) error {
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return CheckRange(o.RequestRange)
	case *pb.RequestOp_RequestPut:
		return CheckPut(o.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return CheckDelete(o.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return CheckTxn(o.RequestTxn, maxOps)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

// CheckOverlap refuses a branch that puts a key twice, or puts and deletes it.
// It is as lenient as the server where one nested transaction deletes what an
// earlier one puts.
func CheckOverlap(ops []*pb.RequestOp) error {
	_, _, err := writesOf(ops)
	return err
}

type span struct{ key, end string }

func writesOf(ops []*pb.RequestOp) (puts map[string]bool, dels []span, err error) {
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			dels = append(dels, span{string(d.Key), string(d.RangeEnd)})
		}
	}
	puts = map[string]bool{}
	for _, op := range ops {
		if t := op.GetRequestTxn(); t != nil {
			below, err := nestedWrites(t, puts, dels)
			if err != nil {
				return nil, nil, err
			}
			dels = append(dels, below...)
		}
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			k := string(p.Key)
			if puts[k] || deleted(dels, k) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[k] = true
		}
	}
	return puts, dels, nil
}

// nestedWrites adds the puts of t to puts and returns its deletions. Its two
// branches may put the same key, because only one of them runs.
func nestedWrites(t *pb.TxnRequest, puts map[string]bool, dels []span) ([]span, error) {
	then, thenDels, err := writesOf(t.Success)
	if err != nil {
		return nil, err
	}
	other, otherDels, err := writesOf(t.Failure)
	if err != nil {
		return nil, err
	}
	for k := range then {
		if puts[k] || deleted(dels, k) {
			return nil, rpctypes.ErrGRPCDuplicateKey
		}
		puts[k] = true
	}
	for k := range other {
		if puts[k] && !then[k] || deleted(dels, k) {
			return nil, rpctypes.ErrGRPCDuplicateKey
		}
		puts[k] = true
	}
	return append(thenDels, otherDels...), nil
}

func deleted(dels []span, k string) bool {
	for _, d := range dels {
		// As in the server, an open end does not count here.
		if d.end != FromKey && InRange(k, d.key, d.end) {
			return true
		}
	}
	return false
}
