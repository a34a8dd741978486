package kv

import (
	"bytes"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Op is one operation: Put, Delete or Get. The zero Op is refused.
type Op struct {
	kind  kind
	key   string
	value []byte
	bare  bool // of a Get: without the value
}

// Put writes value to key, without a lease. value is copied.
func Put(key string, value []byte) Op { return Op{kind: opPut, key: key, value: bytes.Clone(value)} }

// Delete removes key; it is no error if that is not there.
func Delete(key string) Op { return Op{kind: opDelete, key: key} }

// Get reads key into Result.Gets. It sees what operations before it, in the same branch, have done.
func Get(key string) Op { return Op{kind: opGet, key: key} }

// checkOps refuses what etcd would refuse of one branch, or not understand.
func checkOps(branch string, ops []Op) error {
	written := make(map[string]kind, len(ops))
	for i, op := range ops {
		if err := op.check(); err != nil {
			return fmt.Errorf("%s, operation %d: %w", branch, i, err)
		}
		if op.kind == opGet {
			continue
		}
		// etcd allows deleting twice, but nothing beside a put of the same key.
		if before, twice := written[op.key]; twice && (op.kind == opPut || before == opPut) {
			return fmt.Errorf("%s, operation %d: key %q is written twice", branch, i, op.key)
		}
		written[op.key] = op.kind
	}
	return nil
}

func (op Op) check() error {
	switch {
	case op.kind == 0:
		return errors.New("the zero Op is no operation")
	case op.key == "":
		return errors.New("the key is empty")
	}
	return nil
}

func (op Op) request() *pb.RequestOp {
	switch op.kind {
	case opPut:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(op.key), Value: op.value}}}
	case opDelete:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(op.key)}}}
	}
	return read(op.key, op.bare)
}

// read is a linearizable Range of one key.
func read(key string, keysOnly bool) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key), KeysOnly: keysOnly}}}
}
