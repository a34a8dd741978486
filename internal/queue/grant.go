package queue

import (
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/watch"
)

// A grant hands a line on without a question. Whoever asks for its place reads
// also who stands behind it. That order is final: a key that is created later
// comes after all of them. Its release deletes its own key and, if the next key
// still has the create revision that was seen, puts a grant on it, all in one
// transaction, which shows that the one before was there until it released and
// that the next was there then. The next one's watch of its own key tells it: it
// holds, without a request (rule A2).
//
// A grant also carries who comes after, so that a line is asked about once in
// maxHeirs handoffs. It is written below the key's own value:
//
//	{"pawl":"lock","owner":…}                  the key's own value, as it was
//	granted 7f3a-12 4711                       by which key, with which create revision
//	5b01-3 4713 {"pawl":"lock","owner":…}      those behind, in order
//
// Only keys whose value begins with lease.LabelMark are granted to: a lock's, in
// pawl's layout. Everybody else, and whoever comes to a line about which nothing
// is known, is left to the ordinary way.
const grantWord = "granted "

const (
	// maxHeirs and maxHeirBytes bound how many of those behind are known.
	maxHeirs     = 12
	maxHeirBytes = 4 << 10
	// grantWait is how long a waiter that expects a grant waits for it after it
	// saw the key before go: the two events come in either order.
	grantWait = 20 * time.Millisecond
)

// An heir is a key behind one's own: its name behind the line's prefix, its
// create revision, and its value.
type heir struct {
	suffix string
	create int64
	value  string
}

// cutHeir takes the first heir off lines.
func cutHeir(lines string) (h heir, rest string, ok bool) {
	line, rest, ok := strings.Cut(lines, "\n")
	if !ok {
		return heir{}, "", false
	}
	h.suffix, line, _ = strings.Cut(line, " ")
	create, value, ok := strings.Cut(line, " ")
	if !ok || !strings.HasPrefix(value, lease.LabelMark) {
		return heir{}, "", false
	}
	var err error
	h.create, err = strconv.ParseInt(create, 10, 64)
	h.value = value
	return h, rest, err == nil && h.create > 0
}

// heirs writes down those of kvs, which stand in line behind one another, up to
// the first that is not to be granted to.
func (l Line) heirs(kvs []*mvccpb.KeyValue) string {
	var lines strings.Builder
	for _, kv := range kvs {
		_, ok := l.owner(string(kv.Key))
		value, _, _ := strings.Cut(string(kv.Value), "\n")
		if !ok || !strings.HasPrefix(value, lease.LabelMark) || lines.Len()+len(kv.Key)+len(value) > maxHeirBytes {
			break
		}
		lines.WriteString(string(kv.Key)[len(l.Prefix):])
		lines.WriteByte(' ')
		lines.WriteString(strconv.FormatInt(kv.CreateRevision, 10))
		lines.WriteByte(' ')
		lines.WriteString(value)
		lines.WriteByte('\n')
	}
	return lines.String()
}

// cutGrant takes a granted key's value apart: who granted, and who comes after.
func (l Line) cutGrant(value []byte) (by place, heirs string, ok bool) {
	_, rest, ok := strings.Cut(string(value), "\n"+grantWord)
	if !ok {
		return place{}, "", false
	}
	line, heirs, _ := strings.Cut(rest, "\n")
	suffix, create, _ := strings.Cut(line, " ")
	rev, err := strconv.ParseInt(create, 10, 64)
	return place{l.Prefix + suffix, rev}, heirs, err == nil && rev > 0
}

// freeTxn gives the own key back: it deletes it if it is the one that was
// acquired. With grant, it puts a grant on the next key, if that is there as it
// was seen; without, it is nothing but a delete, so that it works on a full disk.
// Doing it twice is harmless.
func (c *Claim) freeTxn(grant bool) *pb.TxnRequest {
	own := []byte(c.key)
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(own, c.create)},
		Success: []*pb.RequestOp{txn.Delete(own)},
	}
	if !grant {
		return t
	}
	if next, rest, ok := cutHeir(c.knownHeirs()); ok {
		key := []byte(c.line.Prefix + next.suffix)
		value := next.value + "\n" + grantWord + c.suffix() + " " + strconv.FormatInt(c.create, 10) + "\n" + rest
		t.Success = []*pb.RequestOp{txn.Nested(&pb.TxnRequest{
			Compare: []*pb.Compare{txn.CreateIs(key, next.create)},
			Success: []*pb.RequestOp{txn.Delete(own), txn.PutKeepingLease(key, []byte(value))},
			Failure: []*pb.RequestOp{txn.Delete(own)},
		})}
	}
	return t
}

// suffix is the own key behind the line's prefix.
func (c *Claim) suffix() string { return c.key[len(c.line.Prefix):] }

func (c *Claim) knownHeirs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heirs
}

// granted takes in a put on the own key that is on its lease, of its create
// revision and newer than what was known, if it is a grant. The claim's mutex is
// held. A grant by another than the one that is waited for, which is gone then,
// is as good a reason to ask as any.
func (c *Claim) granted(ev watch.Event) bool {
	if !c.grants || c.mod != c.create {
		return false // a key is granted to once
	}
	by, heirs, ok := c.line.cutGrant(ev.Value)
	if !ok {
		return false
	}
	c.mod = ev.ModRevision
	switch {
	case c.before.key == "": // it asked, and holds by that answer
	case c.before == by:
		c.mine, c.heirs = true, heirs
	default:
		c.passed = true
	}
	c.wake()
	return true
}

// expects reports whether ev, the deletion of the key before, was of one that had
// been granted the line and knew the own key as next, so that its release was a
// grant to this one.
func (c *Claim) expects(ev watch.Event) bool {
	if !c.grants {
		return false
	}
	_, heirs, ok := c.line.cutGrant(ev.Value)
	next, _, named := cutHeir(heirs)
	return ok && named && next.suffix == c.suffix() && next.create == c.create
}
