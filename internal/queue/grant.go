package queue

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
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
//	{"pawl":"lock","owner":…,"since":"…:12Z"}  the key's own value, as it was
//	granted 7f3a-12 4711                       by which key, with which create revision
//	5b01-3 4713 71 31Z"}                       those behind, in order: a name, its create revision,
//	81c4-1 4720 16 "worker-2",…                how much of the value before its own begins alike, the rest
//
// Only keys whose value begins with lease.LabelMark are granted to: a lock's, in
// pawl's layout. Everybody else, and whoever comes to a line about which nothing
// is known, is left to the ordinary way.
const grantWord = "granted "

var newline, space, labelMark = []byte("\n"), []byte(" "), []byte(lease.LabelMark)

const (
	// maxHeirs and maxHeirBytes bound how many of those behind are known.
	maxHeirs     = 24
	maxHeirBytes = 2 << 10
	// grantWait is how long a waiter that expects a grant waits for it after it
	// saw the key before go: the two events come in either order.
	grantWait = 20 * time.Millisecond
)

// An heir is a key behind one's own: its name behind the line's prefix, its
// create revision, and its value.
type heir struct {
	suffix []byte
	create int64
	value  []byte
}

// heirs are those behind, as a grant carries them.
type heirs struct {
	before []byte // the value before the first one's
	lines  []byte
}

// first takes the first off.
func (h heirs) first() (next heir, rest heirs, ok bool) {
	if len(h.lines) == 0 {
		return heir{}, heirs{}, false // as for most, and at no cost
	}
	line, lines, ok := bytes.Cut(h.lines, newline)
	suffix, line, _ := bytes.Cut(line, space)
	create, line, _ := bytes.Cut(line, space)
	alike, tail, _ := bytes.Cut(line, space)
	rev, err := strconv.ParseInt(string(create), 10, 64)
	n, err2 := strconv.Atoi(string(alike))
	if !ok || err != nil || err2 != nil || rev <= 0 || n < 0 || n > len(h.before) {
		return heir{}, heirs{}, false
	}
	value := append(h.before[:n:n], tail...)
	return heir{suffix, rev, value}, heirs{value, lines}, bytes.HasPrefix(value, labelMark)
}

// heirs writes down those of kvs, which stand in line behind one another, up to
// the first that is not to be granted to.
func (l Line) heirs(kvs []*mvccpb.KeyValue) (h heirs) {
	var before []byte
	for _, kv := range kvs {
		_, ok := l.owner(string(kv.Key))
		value, _, _ := bytes.Cut(kv.Value, newline)
		n := alike(before, value)
		if !ok || !bytes.HasPrefix(value, labelMark) || len(h.lines)+len(kv.Key)-len(l.Prefix)+len(value)-n > maxHeirBytes {
			break
		}
		h.lines = append(h.lines, kv.Key[len(l.Prefix):]...)
		h.lines = strconv.AppendInt(append(h.lines, ' '), kv.CreateRevision, 10)
		h.lines = strconv.AppendInt(append(h.lines, ' '), int64(n), 10)
		h.lines = append(append(h.lines, ' '), value[n:]...)
		h.lines = append(h.lines, '\n')
		before = value
	}
	return h
}

// alike is with how many bytes a and b begin alike.
func alike(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// cutGrant takes a granted key's value apart: who granted, and who comes after.
func (l Line) cutGrant(value []byte) (by place, behind heirs, ok bool) {
	own, rest, ok := bytes.Cut(value, []byte("\n"+grantWord))
	if !ok {
		return place{}, heirs{}, false
	}
	line, lines, _ := bytes.Cut(rest, newline)
	suffix, create, _ := bytes.Cut(line, space)
	rev, err := strconv.ParseInt(string(create), 10, 64)
	return place{l.Prefix + string(suffix), rev}, heirs{own, lines}, err == nil && rev > 0
}

// freeTxn gives the own key back: it deletes it if it is the one that was
// acquired. With grant, it also puts a grant on the next key, and does neither unless
// that is there as it was seen; without, it is nothing but a delete, so that it
// works on a full disk. Doing it twice is harmless.
func (c *Claim) freeTxn(grant bool) *pb.TxnRequest {
	own := []byte(c.key)
	free := txn.New()
	free.Compare = append(free.Compare, txn.CreateIs(own, c.create))
	free.Success = append(free.Success, txn.DeletePrevious(own))
	if next, rest, ok := c.knownHeirs().first(); grant && ok {
		key := slices.Concat([]byte(c.line.Prefix), next.suffix)
		free.Compare = append(free.Compare, txn.CreateIs(key, next.create))
		free.Success = append(free.Success, txn.PutKeepingLease(key, c.grantValue(next, rest)))
	}
	return free
}

// grantValue is next's value with a grant by c, behind whom come rest.
func (c *Claim) grantValue(next heir, rest heirs) []byte {
	v := make([]byte, 0, len(next.value)+len(grantWord)+len(c.suffix())+len(rest.lines)+len("\n \n")+len("9223372036854775807"))
	v = append(v, next.value...)
	v = append(v, "\n"+grantWord...)
	v = append(v, c.suffix()...)
	v = append(v, ' ')
	v = strconv.AppendInt(v, c.create, 10)
	v = append(v, '\n')
	return append(v, rest.lines...)
}

// suffix is the own key behind the line's prefix.
func (c *Claim) suffix() string { return c.key[len(c.line.Prefix):] }

func (c *Claim) knownHeirs() heirs {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heirs
}

// granted takes in a put on the own key that is on its lease, of its create
// revision and newer than what was known, if it is a grant. The claim's mutex is
// held. A grant by another than the one that is waited for, which is gone then,
// is as good a reason to ask as any.
func (c *Claim) granted(ev watcher.Event) bool {
	if !c.grants || c.mod != c.create {
		return false // a key is granted to once
	}
	by, behind, ok := c.line.cutGrant(ev.Value)
	if !ok {
		return false
	}
	c.mod = ev.ModRevision
	switch {
	case c.before.key == "": // it asked, and holds by that answer
	case c.before == by:
		c.mine, c.heirs = true, behind
	default:
		c.passed = true
	}
	c.wake()
	return true
}

// expects reports whether ev, the deletion of the key before, was of one that had
// been granted the line and knew the own key as next, so that its release was a
// grant to this one.
func (c *Claim) expects(ev watcher.Event) bool {
	if !c.grants {
		return false
	}
	_, behind, ok := c.line.cutGrant(ev.Value)
	next, _, named := behind.first()
	return ok && named && string(next.suffix) == c.suffix() && next.create == c.create
}
