package pawl

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Shards spreads names over several clusters: where one cluster cannot carry all
// locks and elections, each name has its own among several. All processes must
// be given the same labels for the same clusters; then they agree on where a name
// is, without asking anybody. Its methods may be called by several goroutines
// at once.
//
// What holds across clusters, and what does not:
//
//  1. Of one name, everything that package pawl guarantees holds: it lives on one
//     cluster.
//  2. Tokens of one name go up. Those of two names that are on different clusters
//     must not be compared: each cluster counts for itself.
//  3. A session ends with its cluster, and with it the locks there; those on the
//     others stay. kv transactions guard with locks of one cluster only.
//  4. A label says where a name is, not the endpoints behind it: a cluster may move
//     to other machines. Another set of labels moves names: to a label that is
//     new, about its share of all names and no others; from one that is gone, its
//     own names. While two processes use different sets, a name that moves
//     can have two holders, and its token may go back. docs/scale.md says how to
//     change the set safely.
type Shards struct {
	clients map[string]*Client
	labels  []string // sorted
}

// NewShards is a choice among clusters, each a Client by a label of your own
// that stays with it. It does not connect. Close closes the Clients.
//
// Two labels may lead to one cluster, with a Config.Namespace each: who begins with
// more labels than clusters can later move a label at a time.
func NewShards(clients map[string]*Client) (*Shards, error) {
	if len(clients) == 0 {
		return nil, errors.New("pawl: shards: no clusters")
	}
	of := make(map[*Client]string, len(clients))
	for _, label := range slices.Sorted(maps.Keys(clients)) {
		c := clients[label]
		switch other, twice := of[c]; {
		case label == "" || strings.Contains(label, "\x00"):
			return nil, fmt.Errorf("pawl: shards: label %q is empty or contains a zero byte", label)
		case c == nil || c.cluster == nil:
			return nil, fmt.Errorf("pawl: shards: label %q: Client is nil, or was not made by Dial", label)
		case twice:
			return nil, fmt.Errorf("pawl: shards: labels %q and %q have the same Client", other, label)
		}
		of[c] = label
	}
	return &Shards{clients: maps.Clone(clients), labels: slices.Sorted(maps.Keys(clients))}, nil
}

// Label is the label of the cluster that name is on: of all labels, that whose
// hash with the name is the highest. It depends on nothing else, and is the same
// in every process and version. "" of a nil or zero Shards.
func (s *Shards) Label(name string) string {
	if s == nil {
		return ""
	}
	best, most := "", uint64(0)
	for _, label := range s.labels { // in their order, which decides between equals
		if w := weight(label, name); best == "" || w > most {
			best, most = label, w
		}
	}
	return best
}

// weight is how much a label wants a name (rendezvous hashing).
func weight(label, name string) uint64 {
	sum := sha256.Sum256([]byte(label + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}

// Client is the Client of the cluster that name is on, for elect.LeaderOf,
// elect.Observe and elect.Run, and for KV; nil of a nil or zero Shards.
func (s *Shards) Client(name string) *Client {
	if s == nil {
		return nil
	}
	return s.clients[s.Label(name)]
}

// Session is the session to lock name with, or to campaign for it: that of the
// Client of its cluster, as Client.Session gives it, so there is one session on
// each cluster that is used. ctx bounds the call and nothing after it. A lock of
// another name is to be made with the session for that name.
func (s *Shards) Session(ctx context.Context, name string) (*Session, error) {
	if s == nil || len(s.labels) == 0 {
		return nil, errors.New("pawl: shards: nil Shards, or not made by NewShards")
	}
	label := s.Label(name)
	session, err := s.clients[label].Session(ctx)
	if err != nil {
		return nil, fmt.Errorf("pawl: shards: %q: %w", label, err)
	}
	return session, nil
}

// Close closes all Clients, at the same time. The error says what was left to
// expire, and where. It can be called again, and gives the same answer.
func (s *Shards) Close() error {
	if s == nil {
		return nil
	}
	errs := make([]error, len(s.labels))
	var wg sync.WaitGroup
	for i, label := range s.labels {
		wg.Go(func() { // ends when the Client is closed, as Close waits for
			if err := s.clients[label].Close(); err != nil {
				errs[i] = fmt.Errorf("pawl: shards: %q: %w", label, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
