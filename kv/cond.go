package kv

import (
	"bytes"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// kind is the kind of a Cond or an Op. Their zero values have kind 0.
type kind int

const (
	condAbsent kind = iota + 1
	condModRevision
	condValue
	opPut
	opDelete
	opGet
	opPrefix
)

// Cond is one of the caller's conditions: Absent, ModRevision or Value. The zero Cond is refused.
type Cond struct {
	kind  kind
	key   string
	rev   int64
	value []byte
}

// Absent holds if key does not exist.
func Absent(key string) Cond { return Cond{kind: condAbsent, key: key} }

// ModRevision holds if key was last modified at revision rev. If rev is 0, it holds if key does not
// exist.
func ModRevision(key string, rev int64) Cond { return Cond{kind: condModRevision, key: key, rev: rev} }

// Value holds if key exists and has this value. A nil value is the empty one. value is copied.
func Value(key string, value []byte) Cond {
	return Cond{kind: condValue, key: key, value: bytes.Clone(value)}
}

func (c Cond) check() error {
	switch {
	case c.kind == 0:
		return errors.New("the zero Cond is no condition")
	case c.key == "":
		return errors.New("the key is empty")
	case c.rev < 0:
		return fmt.Errorf("key %q: revision %d is negative", c.key, c.rev)
	}
	return nil
}

func (c Cond) compare() *pb.Compare {
	cmp := &pb.Compare{Key: []byte(c.key), Result: pb.Compare_EQUAL}
	switch c.kind {
	case condAbsent:
		cmp.Target, cmp.TargetUnion = pb.Compare_CREATE, &pb.Compare_CreateRevision{}
	case condModRevision:
		cmp.Target, cmp.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: c.rev}
	case condValue:
		cmp.Target, cmp.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: c.value}
	}
	return cmp
}
