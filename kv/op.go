package kv

import (
	"bytes"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/txn"
)

// Op is one operation: Put, Delete, Get or GetPrefix. The zero Op is refused.
type Op struct {
	kind  kind
	key   string // the prefix, if op is a GetPrefix
	value []byte
	lease Lease // of a Put that OnSession made, otherwise nil
	bad   error // why it is invalid
	limit int64 // of a GetPrefix
}

// Put writes value to key, without a lease. For a lease see OnSession. value is copied.
func Put(key string, value []byte) Op { return Op{kind: opPut, key: key, value: bytes.Clone(value)} }

// Delete deletes key. It is no error if key does not exist.
func Delete(key string) Op { return Op{kind: opDelete, key: key} }

// Get reads key into Result.Gets. It sees what operations before it, in the same branch, have done.
func Get(key string) Op { return Op{kind: opGet, key: key} }

// GetPrefix reads the first limit keys with prefix, in their order, into Result.Gets, or all of them if
// limit is 0. If it leaves out any, Result.More is true. An empty prefix means all keys. Like Get, it
// sees what operations before it in the same branch have done.
func GetPrefix(prefix string, limit int64) Op { return Op{kind: opPrefix, key: prefix, limit: limit} }

// Lease is what a Put's key can be attached to. A *pawl.Session is one. ID is the lease's ID, or 0 for
// none. Err returns why the session has ended, or nil while it is valid, and must not block.
type Lease interface {
	ID() int64
	Err() error
}

// OnSession makes op, a Put, write its key on the lease of s, so that etcd deletes the key when the
// session ends, however it ends. If the session has ended, the transaction is refused with the error of
// s.Err. If its lease is gone at the server, and this process does not know that yet, the transaction
// does not apply. The next Put of the key without OnSession removes it from the lease.
func OnSession(op Op, s Lease) Op {
	switch {
	case op.kind != opPut:
		op.bad = errors.New("only a Put can be on a session")
	case s == nil:
		op.bad = errors.New("the session is nil")
	}
	op.lease = s
	return op
}

// ended returns why the session of op has ended, or nil if it has not, or if op has no session.
func (op Op) ended() error {
	if op.lease == nil {
		return nil
	}
	if err := op.lease.Err(); err != nil {
		return fmt.Errorf("key %q is on a session that has ended: %w", op.key, err)
	}
	if op.lease.ID() == 0 {
		return fmt.Errorf("key %q is on a session without a lease", op.key)
	}
	return nil
}

// checkOps refuses what etcd would refuse in one branch, or would misunderstand.
func checkOps(branch string, ops []Op) error {
	written := make(map[string]kind, len(ops))
	for i, op := range ops {
		if err := op.check(); err != nil {
			return fmt.Errorf("%s, operation %d: %w", branch, i, err)
		}
		if op.reads() {
			continue
		}
		// etcd allows deleting a key twice, but no other write besides a put of the same key.
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
	case op.bad != nil:
		return op.bad
	case op.key == "" && op.kind != opPrefix:
		return errors.New("the key is empty")
	case op.limit < 0:
		return fmt.Errorf("prefix %q: the limit %d is negative", op.key, op.limit)
	}
	return nil
}

// reads reports whether op is a Get or a GetPrefix.
func (op Op) reads() bool { return op.kind == opGet || op.kind == opPrefix }

func (op Op) request() *pb.RequestOp {
	switch op.kind {
	case opPut:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: []byte(op.key), Value: op.value, Lease: op.leaseID(),
		}}}
	case opDelete:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(op.key)}}}
	case opPrefix:
		return readPrefix(op.key, op.key, op.limit, 0)
	}
	return read(op.key, false)
}

func (op Op) leaseID() int64 {
	if op.lease == nil {
		return 0
	}
	return op.lease.ID()
}

// readPrefix is a linearizable Range of the first limit keys with prefix, starting at key from. limit 0
// means all, and rev 0 means the current revision.
func readPrefix(prefix, from string, limit, rev int64) *pb.RequestOp {
	r := &pb.RangeRequest{Key: []byte(from), RangeEnd: txn.PrefixEnd(prefix), Limit: limit, Revision: rev}
	if from == "" {
		r.Key = []byte{0} // the smallest key
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// read is a linearizable Range of one key.
func read(key string, keysOnly bool) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key), KeysOnly: keysOnly}}}
}
