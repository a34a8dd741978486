package keys

import (
	"strconv"
	"strings"
)

// sessionRoot is SessionRoot after the namespace. No escaped name begins with two slashes.
const sessionRoot = "//pawl/"

// SessionRoot is the prefix of all session keys, and of all keys that belong to them.
func SessionRoot(namespace string) string { return namespace + sessionRoot }

// OfSessions reports whether key, with or without its namespace, lies below SessionRoot of this
// namespace or of one that begins with it. It returns false for a semaphore's key and for one that
// belongs to shards.
func OfSessions(key string) bool {
	_, below, ok := strings.Cut(key, sessionRoot)
	return ok && !strings.HasPrefix(below, semaphoreRoot) && !strings.HasPrefix(below, shardsRoot)
}

// semaphoreRoot is the prefix of the keys of all semaphores, after SessionRoot. It is not a
// lease.
const semaphoreRoot = "sem/"

// SemaphoreRoot is the prefix of the keys of all semaphores.
func SemaphoreRoot(namespace string) string { return SessionRoot(namespace) + semaphoreRoot }

// SessionKey is the session key of a lease.
func SessionKey(namespace string, lease int64) string {
	return SessionRoot(namespace) + strconv.FormatInt(lease, 16)
}

// ParseSessionKey returns the lease named by a key below SessionRoot, and whether the key is
// below that lease's session key. ok is false if it names no lease.
func ParseSessionKey(namespace, key string) (lease int64, below, ok bool) {
	rest, ok := strings.CutPrefix(key, SessionRoot(namespace))
	if !ok {
		return 0, false, false
	}
	hex, _, below := strings.Cut(rest, "/")
	lease, ok = parseLease(hex)
	return lease, below, ok
}

// onceRoot is the prefix of the records of runs, after SessionRoot. It is not a lease.
const onceRoot = "once/"

// OnceKey is the key of the record of the last run under a name. It is on no lease. The
// name is escaped in either layout.
func OnceKey(namespace, name string) string { return OnceRoot(namespace) + escape(name) }

// OnceRoot is the prefix of the records of all names.
func OnceRoot(namespace string) string { return SessionRoot(namespace) + onceRoot }

// ParseOnceKey returns the name whose record key is. ok is false if key is no record's.
func ParseOnceKey(namespace, key string) (name string, ok bool) {
	escaped, of := strings.CutPrefix(key, OnceRoot(namespace))
	name, ok = unescape(escaped)
	return name, of && ok
}

// OfOnce reports whether key is the record of a run.
func OfOnce(namespace, key string) bool { return strings.HasPrefix(key, OnceRoot(namespace)) }

// CancelKey is the cancel key of acquisition n of the session with this key. While it exists,
// no late copy of the acquisition's enqueue can be applied (rule A5).
func CancelKey(session string, n int64) []byte {
	b := make([]byte, 0, len(session)+len("/9223372036854775807"))
	b = append(b, session...)
	b = append(b, '/')
	return strconv.AppendInt(b, n, 10)
}

// OwnerKey names the owner of acquisition n of the session with this key, for a candidate,
// whose queue key's value is the caller's. Its value is an [Identity]. It is put and deleted
// with the queue key.
func OwnerKey(session string, n int64) string { return string(CancelKey(session, n)) + "/owner" }

// EvictionKey is the mark that an operator has evicted acquisition n of the session with this
// key. Its value is the operator's [Identity].
func EvictionKey(session string, n int64) string {
	return string(CancelKey(session, n)) + "/broken"
}
