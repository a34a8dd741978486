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

// Clusters distributes names over several clusters, for when one cluster cannot carry all locks and
// elections. All processes must use the same labels for the same clusters. They then agree, without any
// communication, which cluster a name is on. Its methods are safe for concurrent use.
//
// What holds across clusters, and what does not:
//
//  1. For one name, everything that package pawl guarantees holds, because the name is on one cluster.
//  2. The tokens of one name increase. Those of two names on different clusters must not be compared,
//     because each cluster counts separately.
//  3. A session ends with its cluster, and so do the locks there. Locks on other clusters are not
//     affected. A kv transaction can be guarded only with locks of its cluster.
//  4. Labels, not endpoints, decide where a name is, so a cluster may move to other machines. Changing
//     the set of labels moves names. A new label takes about its share of all names, and the names of a
//     removed label move to the others. No other name moves. While two processes use different sets, a
//     name that moves can have two holders, and its token may go back. docs/results/scale.md says how
//     to change the set safely.
type Clusters struct {
	clients map[string]*Client
	labels  []string // sorted
}

// NewClusters makes the Clusters of clients. Each Client has a label that you choose and that must not
// change. NewClusters does not connect. Close closes the Clients.
//
// Two labels may lead to one cluster, if each has a different Config.Namespace. If there are more
// labels than clusters, labels can later be moved one at a time.
func NewClusters(clients map[string]*Client) (*Clusters, error) {
	if len(clients) == 0 {
		return nil, errors.New("pawl: clusters: no clusters")
	}
	of := make(map[*Client]string, len(clients))
	for _, label := range slices.Sorted(maps.Keys(clients)) {
		c := clients[label]
		switch other, twice := of[c]; {
		case label == "" || strings.Contains(label, "\x00"):
			return nil, fmt.Errorf("pawl: clusters: label %q is empty or contains a zero byte", label)
		case c == nil || c.cluster == nil:
			return nil, fmt.Errorf("pawl: clusters: label %q: Client is nil, or was not made by Dial", label)
		case twice:
			return nil, fmt.Errorf("pawl: clusters: labels %q and %q have the same Client", other, label)
		}
		of[c] = label
	}
	return &Clusters{clients: maps.Clone(clients), labels: slices.Sorted(maps.Keys(clients))}, nil
}

// Label is the label of the cluster of name, which is the one whose hash with the name is the highest.
// It depends on nothing else, and is the same in every process and version. It is "" for a nil or zero
// Clusters.
func (c *Clusters) Label(name string) string {
	if c == nil {
		return ""
	}
	best, most := "", uint64(0)
	for _, label := range c.labels { // sorted, so that the first of equal weights counts everywhere
		if w := weight(label, name); best == "" || w > most {
			best, most = label, w
		}
	}
	return best
}

// weight is the weight of label for name (rendezvous hashing).
func weight(label, name string) uint64 {
	sum := sha256.Sum256([]byte(label + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}

// Client is the Client of the cluster of name. It is for elect.LeaderOf, elect.Observe and elect.Run,
// for KV, and for locks whose names should not be distributed. It is nil for a nil or zero Clusters.
func (c *Clusters) Client(name string) *Client {
	if c == nil {
		return nil
	}
	return c.clients[c.Label(name)]
}

// For returns the sessions with which to lock name or to campaign for it: lock.New(clusters.For(name),
// name, …). They are those of the Client of name's cluster, so there is one session on each cluster
// that is used. A lock of another name needs For of that name. If its name is on another cluster, its
// first call fails, and sends nothing. If somebody else chooses the names, as a scheduler does for its
// jobs, use Client, whose locks are all on one cluster.
func (c *Clusters) For(name string) Sessions {
	label := c.Label(name)
	if label == "" {
		return sessionsOf{}
	}
	return sessionsOf{c, label, c.clients[label]}
}

// ForAll is For of several names, for a lock of all of them. They must be on one cluster. Otherwise the
// error contains two that are not. A lock.Multi that is made with For of one of its names reports that
// too.
func (c *Clusters) ForAll(names ...string) (Sessions, error) {
	if c == nil || len(c.labels) == 0 {
		return nil, errNoClusters
	}
	if len(names) == 0 {
		return nil, errors.New("pawl: clusters: no names")
	}
	s := c.For(names[0]).(sessionsOf)
	if err := s.carry(names[0], names[1:]); err != nil {
		return nil, err
	}
	return s, nil
}

var errNoClusters = errors.New("pawl: clusters: nil Clusters, or not made by NewClusters")

// sessionsOf are the sessions of one cluster. The zero value has none.
type sessionsOf struct {
	of     *Clusters
	label  string
	client *Client
}

// carry returns an error if one of the names of one lock is on another cluster, and reports the first
// such name.
func (s sessionsOf) carry(first string, more []string) error {
	if s.of == nil {
		return nil // Session reports that
	}
	if label := s.of.Label(first); label != s.label {
		return fmt.Errorf("pawl: clusters: %q is on %q, and the sessions are those of %q", first, label, s.label)
	}
	for _, name := range more {
		if label := s.of.Label(name); label != s.label {
			return fmt.Errorf("pawl: clusters: %q is on %q, %q on %q: names that are locked together must be on one cluster", first, s.label, name, label)
		}
	}
	return nil
}

// Session is the session of the cluster's Client, as Client.Session returns it.
func (s sessionsOf) Session(ctx context.Context) (*Session, error) {
	if s.client == nil {
		return nil, errNoClusters
	}
	session, err := s.client.Session(ctx)
	if err != nil {
		return nil, fmt.Errorf("pawl: clusters: %q: %w", s.label, err)
	}
	return session, nil
}

// Close closes all Clients, at the same time. Its error says what was left to expire, and where. It can
// be called again, and then returns the same.
func (c *Clusters) Close() error {
	if c == nil {
		return nil
	}
	errs := make([]error, len(c.labels))
	var wg sync.WaitGroup
	for i, label := range c.labels {
		wg.Go(func() { // ends when the Client is closed; Close waits for it
			if err := c.clients[label].Close(); err != nil {
				errs[i] = fmt.Errorf("pawl: clusters: %q: %w", label, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
