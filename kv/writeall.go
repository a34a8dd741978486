package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// fullTxn is how many operations etcd allows in a transaction by default, and fullRequest how
// many bytes of keys and values are put into one: two thirds of the default of
// --max-request-bytes.
const (
	fullTxn     = 128
	fullRequest = 1 << 20
)

// doubts is how often WriteAll sends a part again whose outcome was unknown, or which an earlier
// copy of itself overtook.
const doubts = 3

// WriteAll applies writes, Puts and Deletes, in their order and under guards, in as many
// transactions as the cluster's --max-txn-ops needs, each of at most 1 MiB unless a single write
// has more. Each transaction compares all guards, so that
// nothing is written after the lock was lost; together they are not atomic, and others can see
// those that were applied before the rest.
//
// Each transaction also compares the modification revisions of its keys with those that were read
// before it was sent. So a copy whose answer was lost, and which arrives late, can never overwrite
// what was written after it, and a part whose outcome is unknown is sent again here. One thing such
// a late copy can do while the lock is held: where all keys of its part were absent before it, and
// have all been deleted since, it creates them again. A caller who creates and deletes a key under one and
// the same holding, and minds that, puts an empty value in place of the deletion. Somebody who
// writes the same keys without the lock can make WriteAll fail.
//
// It returns how many of the writes, counted from the first, were applied for certain: all of them
// if the error is nil. With an error that matches ErrUnknown some of those after may have been
// applied, or may still be until the keys are written again; with any other, ErrFenced too, none
// of them was.
//
// At least one guard is needed. A key may be written several times. ctx bounds the whole call; each
// transaction takes at most 20 s.
func (c *Client) WriteAll(ctx context.Context, guards []Guard, writes []Op) (applied int, err error) {
	if err := checkWrites(guards, writes); err != nil {
		return 0, fmt.Errorf("kv: write all: %w", err)
	}
	for size := max(fullTxn-len(guards), 1); applied < len(writes); { // etcd counts the guards with what they guard
		part := take(writes[applied:], size)
		err := c.writePart(ctx, guards, part)
		switch {
		case err == nil:
			applied += len(part)
		case cluster.IsTooManyOps(err) && len(part) > 1:
			size = len(part) / 2
		default:
			c.notify(ctx, err)
			return applied, fmt.Errorf("kv: write all, %d of %d applied: %w", applied, len(writes), err)
		}
	}
	return applied, nil
}

// errOvertaken says that a part's keys changed between the read before it and the part itself.
var errOvertaken = errors.New("somebody else writes the same keys")

// writePart applies one part, in one transaction.
func (c *Client) writePart(ctx context.Context, guards []Guard, part []Op) error {
	var doubt error // an outcome that is unknown
	for try := 1; ; try++ {
		err := c.writeOnce(ctx, guards, part)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrUnknown):
			doubt = err
		case !errors.Is(err, errOvertaken):
			return errors.Join(err, doubt)
		}
		if try == doubts || ctx.Err() != nil {
			return errors.Join(err, doubt)
		}
	}
}

// writeOnce reads the modification revisions of the part's keys, and writes the keys if these
// are unchanged.
func (c *Client) writeOnce(ctx context.Context, guards []Guard, part []Op) error {
	var keys []Op
	for _, op := range part {
		keys = append(keys, Op{kind: opGet, key: op.key, bare: true})
	}
	now, err := c.txn(ctx, Txn{Guards: guards, Then: keys})
	if err != nil {
		return err
	}
	var as []Cond
	for _, e := range now.Gets {
		as = append(as, ModRevision(e.Key, e.ModRevision))
	}
	res, err := c.txn(ctx, Txn{Guards: guards, If: as, Then: part})
	if err == nil && !res.OK {
		return errOvertaken
	}
	return err
}

func checkWrites(guards []Guard, writes []Op) error {
	if len(guards) == 0 {
		return errors.New("no guard: every write is to be under a lock")
	}
	for i, op := range writes {
		if err := op.check(); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		if op.reads() {
			return fmt.Errorf("write %d: a read writes nothing", i)
		}
		if err := op.ended(); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	return nil
}

// take is the longest prefix of writes, with at most size of them, that etcd accepts as one
// transaction: no key is written beside a put of the same key.
func take(writes []Op, size int) []Op {
	n := min(size, len(writes))
	written := make(map[string]kind, n)
	bytes := 0
	for i, op := range writes[:n] {
		if bytes += len(op.key) + len(op.value); i > 0 && bytes > fullRequest {
			return writes[:i]
		}
		if before, twice := written[op.key]; twice && (op.kind == opPut || before == opPut) {
			return writes[:i]
		}
		written[op.key] = op.kind
	}
	return writes[:n]
}
