package keys

import (
	"fmt"
	"strconv"
	"strings"
)

// shardsRoot is the prefix of everything that belongs to shards, after SessionRoot. It is not a
// lease.
const shardsRoot = "shard/"

// shardRoot is shardsRoot after the namespace. No name begins with it.
const shardRoot = sessionRoot + shardsRoot

// ShardsRoot is the prefix of everything that belongs to shards.
func ShardsRoot(namespace string) string { return namespace + shardRoot }

// MaxShards is how many shards a name may have at most.
const MaxShards = 100_000

// Shards are the keys of one name whose shards are distributed among workers. After Prefix they are
//
//	<i>/<lease>-<n>   a queue key of shard i
//	m/<n>/<lease>     the member key of a worker that was started with n shards
//	w/<lease>         the wish key of a worker
//	p/<lease>-<n>     a candidate for the planner
//
// so that all of one name is one range.
type Shards struct {
	Name   string // as given
	Prefix string // namespace included; ends in a slash
	root   string // Prefix without the namespace
}

// NewShards validates name and returns its keys.
func NewShards(namespace, name string) (Shards, error) {
	if err := CheckName(name, false); err != nil {
		return Shards{}, err
	}
	root := shardRoot + escape(name) + "/"
	if longest := len(root) + len(strconv.Itoa(MaxShards-1)); longest > MaxName {
		return Shards{}, fmt.Errorf("the name has %d bytes, %d too many for the names of its shards", len(name), longest-MaxName)
	}
	return Shards{Name: name, Prefix: namespace + root, root: root}, nil
}

// ParseShards returns the Shards to which a key belongs. It returns false if the key belongs to none.
func ParseShards(namespace, key string) (Shards, bool) {
	rest, ok := strings.CutPrefix(key, ShardsRoot(namespace))
	if !ok {
		return Shards{}, false
	}
	escaped, _, ok := strings.Cut(rest, "/")
	if escaped == "" { // the name has a slash
		escaped, _, ok = strings.Cut(rest[min(1, len(rest)):], "/")
		escaped = "/" + escaped
	}
	name, valid := unescape(escaped)
	if !ok || !valid {
		return Shards{}, false
	}
	s, err := NewShards(namespace, name)
	return s, err == nil
}

// Queue is the queue of shard i. Its name cannot be given to NewQueue.
func (s Shards) Queue(i int) Queue { return s.queue(strconv.Itoa(i)) }

// Planner is the queue of the planner's election.
func (s Shards) Planner() Queue { return s.queue("p") }

func (s Shards) queue(of string) Queue { return Queue{Name: s.root + of, Prefix: s.Prefix + of + "/"} }

// Member is the member key of a worker that is started with n shards.
func (s Shards) Member(n int, lease int64) string {
	return s.Prefix + "m/" + strconv.Itoa(n) + "/" + strconv.FormatInt(lease, 16)
}

// Wish is the wish key of a worker.
func (s Shards) Wish(lease int64) string { return s.Prefix + "w/" + strconv.FormatInt(lease, 16) }

// Queues is the range of all shards' queue keys, and of no other key of the name.
func (s Shards) Queues() (from, to []byte) { return []byte(s.Prefix + "0"), []byte(s.Prefix + ":") }

// Members is the range of all member keys.
func (s Shards) Members() (from, to []byte) {
	return []byte(s.Prefix + "m/"), []byte(s.Prefix + "m0")
}

// Workers is the range of all member keys, wish keys and candidates for the planner.
func (s Shards) Workers() (from, to []byte) { return []byte(s.Prefix + "m/"), []byte(s.Prefix + "w0") }

// MembersBut are the two ranges of the member keys of workers that are started with a number of
// shards other than n.
func (s Shards) MembersBut(n int) [2][2][]byte {
	own := s.Prefix + "m/" + strconv.Itoa(n)
	from, to := s.Members()
	return [2][2][]byte{{from, []byte(own + "/")}, {[]byte(own + "0"), to}}
}

// A ShardsKind is what a key of [Shards] is.
type ShardsKind uint8

const (
	ShardsForeign ShardsKind = iota // in none of the forms
	ShardsQueue                     // in a shard's queue, one of pawl's or a foreign one
	ShardsMember
	ShardsWish
	ShardsPlanner
)

// A ShardsKey is the content of the name of a key of [Shards].
type ShardsKey struct {
	Kind  ShardsKind
	Shard int   // of a queue key
	N     int   // only of a member key, how many shards the worker is started with
	Lease int64 // the lease in the name; 0 if there is none, as in a foreign key in a queue
}

// Parse is the inverse of the methods that make keys.
func (s Shards) Parse(key string) (k ShardsKey) {
	rest, ok := strings.CutPrefix(key, s.Prefix)
	if !ok {
		return ShardsKey{}
	}
	of, name, below := strings.Cut(rest, "/")
	switch of {
	case "m":
		count, hex, _ := strings.Cut(name, "/")
		n, ok := parseNumber(count, 10)
		lease, named := parseLease(hex)
		if ok && named && n <= MaxShards {
			return ShardsKey{Kind: ShardsMember, N: int(n), Lease: lease}
		}
	case "w":
		if lease, ok := parseLease(name); ok {
			return ShardsKey{Kind: ShardsWish, Lease: lease}
		}
	case "p":
		q, _ := s.Planner().Parse(key)
		return ShardsKey{Kind: ShardsPlanner, Lease: q.Lease}
	default:
		if i, ok := parseIndex(of, MaxShards); ok && below {
			q, _ := s.Queue(i).Parse(key)
			return ShardsKey{Kind: ShardsQueue, Shard: i, Lease: q.Lease}
		}
	}
	return ShardsKey{}
}

// OfShards reports whether key, with or without its namespace, belongs to shards.
func OfShards(key string) bool { return strings.Contains(key, shardRoot) }
