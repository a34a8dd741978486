package keys

import (
	"bytes"
	"strconv"
	"strings"
)

// A Form is the form of a queue key, which shows the mode. The name of the key in its queue begins with
// a mark of the form.
type Form uint8

const (
	Exclusive Form = iota // <lease>-<n>: holds the name exclusively
	Shared                // +<lease>-<n>: holds the name together with other shared keys
	Turnstile             // q<lease>-<n>: waits for a slot of a semaphore
	Slot                  // s<slot>.<limit>.<lease>-<n>: holds a slot of a semaphore
)

// marks are the beginnings of the names of each form. Names of the first form begin with a hexadecimal
// digit.
var marks = [...]string{Exclusive: "", Shared: "+", Turnstile: "q", Slot: "s"}

// MaxLimit is how many slots a semaphore has at most.
const MaxLimit = 1000

// A QueueKey is the content of a queue key's name. It has the acquisition, by lease and sequence
// number, and the form. A lease never uses a sequence number twice (rule A1).
type QueueKey struct {
	Lease int64
	N     int64 // the sequence number, starting at 1
	Form  Form
	Slot  int // only of a Slot, starting at 0
	Limit int // only of a Slot, how many slots its holder's semaphore has
}

// In returns the whole key in the queue with this prefix.
func (k QueueKey) In(prefix string) string {
	b := append(make([]byte, 0, 128), prefix...) // on the stack, if the name is not long
	b = append(b, marks[k.Form]...)
	if k.Form == Slot {
		b = append(strconv.AppendInt(b, int64(k.Slot), 10), '.')
		b = append(strconv.AppendInt(b, int64(k.Limit), 10), '.')
	}
	b = strconv.AppendInt(b, k.Lease, 16)
	b = append(b, '-')
	return string(strconv.AppendInt(b, k.N, 10))
}

// ParseQueueKey is the inverse of In for a whole key. It parses what follows the last slash. ok is
// false for a key in another form, and for a key in the wrong place: keys in the forms of semaphores
// lie below SemaphoreRoot, the others do not.
func ParseQueueKey(key string) (k QueueKey, ok bool) {
	prefix, name := Split(key)
	for f := Shared; f <= Slot; f++ {
		if rest, of := strings.CutPrefix(name, marks[f]); of {
			k.Form, name = f, rest
			break
		}
	}
	if (k.Form >= Turnstile) != strings.Contains(prefix, sessionRoot+semaphoreRoot) {
		return QueueKey{}, false
	}
	if k.Form == Slot {
		if name, ok = k.cutSlot(name); !ok {
			return QueueKey{}, false
		}
	}
	hex, number, _ := strings.Cut(name, "-")
	k.Lease, ok = parseLease(hex)
	if ok {
		k.N, ok = parseNumber(number, 10)
	}
	if !ok {
		return QueueKey{}, false
	}
	return k, true
}

// cutSlot cuts the slot and the limit off the name of a Slot.
func (k *QueueKey) cutSlot(name string) (rest string, ok bool) {
	slot, rest, _ := strings.Cut(name, ".")
	limit, rest, _ := strings.Cut(rest, ".")
	k.Limit, ok = parseIndex(limit, MaxLimit+1)
	if ok {
		k.Slot, ok = parseIndex(slot, k.Limit)
	}
	return rest, ok
}

// Parse is ParseQueueKey for a key of this queue. ok is false for a key outside the queue, or
// deeper in it.
func (q Queue) Parse(key string) (k QueueKey, ok bool) {
	name, ok := strings.CutPrefix(key, q.Prefix)
	if !ok || strings.Contains(name, "/") {
		return QueueKey{}, false
	}
	return ParseQueueKey(key)
}

// ParsePeerKey parses the name of a queue key as clientv3's concurrency package and etcdctl write it,
// which is only a lease.
func ParsePeerKey(key string) (lease int64, ok bool) {
	_, name := Split(key)
	return parseLease(name)
}

// Has reports whether key is a queue key of this queue. In etcd's layout clientv3's are too.
func (q Queue) Has(key string) bool {
	_, own := q.Parse(key)
	name, ok := strings.CutPrefix(key, q.Prefix)
	_, peer := parseLease(name)
	return own || ok && peer && q.EtcdLayout
}

// LeaseRange is the range of all exclusive keys that the lease of own, an exclusive key, ever
// had in own's queue.
func LeaseRange(own []byte) (from, to []byte) {
	dash := bytes.LastIndexByte(own, '-')
	from, to = own[:dash+1:dash+1], bytes.Clone(own[:dash+1])
	to[dash]++
	return from, to
}

// SharedPrefix is the prefix of all shared keys of the queue with this prefix. All other keys of the
// queue count as exclusive, including foreign ones (rule RW1).
func SharedPrefix(prefix string) string { return prefix + marks[Shared] }

// TurnstilePrefix is the prefix of all turnstile keys of the queue with this prefix.
func TurnstilePrefix(prefix string) string { return prefix + marks[Turnstile] }

// SlotsPrefix is the prefix of the keys of all slots of the queue with this prefix.
func SlotsPrefix(prefix string) string { return prefix + marks[Slot] }

// SlotPrefix is the prefix of all keys of one slot of the queue with this prefix.
func SlotPrefix(prefix string, slot int) string {
	return SlotsPrefix(prefix) + strconv.Itoa(slot) + "."
}

// Split cuts a key after its last slash into the prefix of a queue, and the name of the key in it.
func Split(key string) (prefix, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:i+1], key[i+1:]
}

func parseLease(hex string) (lease int64, ok bool) { return parseNumber(hex, 16) }

// parseIndex reads a number that is at least 0 and below limit. It accepts only the one way in which
// the number is written.
func parseIndex(digits string, limit int) (n int, ok bool) {
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n < limit && strconv.Itoa(n) == digits
}

// parseNumber reads a positive number. It accepts only the one way in which the number is written.
func parseNumber(digits string, base int) (n int64, ok bool) {
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, base) != digits {
		return 0, false
	}
	return n, true
}
