package keys

import (
	"bytes"
	"strconv"
	"strings"
)

// A QueueKey is what the name of a queue key says: which acquisition of which lease
// it is. A lease never uses a sequence number twice (rule A1).
type QueueKey struct {
	Lease int64
	N     int64 // the sequence number, from 1
}

// In is the whole key in the queue with this prefix.
func (k QueueKey) In(prefix string) string {
	b := append(make([]byte, 0, 128), prefix...) // on the stack, if the name is not long
	b = strconv.AppendInt(b, k.Lease, 16)
	b = append(b, '-')
	return string(strconv.AppendInt(b, k.N, 10))
}

// ParseQueueKey is the inverse of In for a whole key: it reads what stands behind
// the last slash. ok is false for a key in another form.
func ParseQueueKey(key string) (k QueueKey, ok bool) {
	_, name := Split(key)
	hex, number, ok := strings.Cut(name, "-")
	if !ok {
		return QueueKey{}, false
	}
	if k.Lease, ok = parseLease(hex); !ok {
		return QueueKey{}, false
	}
	if k.N, ok = parseNumber(number, 10); !ok {
		return QueueKey{}, false
	}
	return k, true
}

// Parse is ParseQueueKey for a key of this queue. ok is false for a key that lies
// elsewhere, or deeper.
func (q Queue) Parse(key string) (k QueueKey, ok bool) {
	name, ok := strings.CutPrefix(key, q.Prefix)
	if !ok || strings.Contains(name, "/") {
		return QueueKey{}, false
	}
	return ParseQueueKey(name)
}

// ParsePeerKey reads the name of a queue key as clientv3's concurrency package and
// etcdctl write it, which is a lease alone.
func ParsePeerKey(key string) (lease int64, ok bool) {
	_, name := Split(key)
	return parseLease(name)
}

// LeaseRange is the range of all queue keys that the lease of own, a queue key,
// ever had in its queue.
func LeaseRange(own []byte) (from, to []byte) {
	dash := bytes.LastIndexByte(own, '-')
	from, to = own[:dash+1:dash+1], bytes.Clone(own[:dash+1])
	to[dash]++
	return from, to
}

// Split cuts a key behind its last slash: a queue's prefix, and the name of the key
// in it.
func Split(key string) (prefix, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:i+1], key[i+1:]
}

func parseLease(hex string) (lease int64, ok bool) { return parseNumber(hex, 16) }

// parseNumber reads a positive number in the one way in which it is written.
func parseNumber(digits string, base int) (n int64, ok bool) {
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, base) != digits {
		return 0, false
	}
	return n, true
}
