package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// Resolved is a cluster of three members, each with a name of its own, and a resolver that may be at fault.
type Resolved struct {
	*etcdfake.Cluster
	log syncBuffer

	mu    sync.Mutex
	fault string
	moved map[string]string         // by name, an address that is not its member's first
	gone  map[string]bool           // addresses where nobody answers
	peers map[string]func(net.Conn) // by address, who answers there in place of a member
	under map[string]int            // lookups under way
	most  int                       // at once, of one name
}

func NewResolved() *Resolved {
	return &Resolved{
		Cluster: etcdfake.New(etcdfake.Options{Members: 3}),
		moved:   make(map[string]string), gone: map[string]bool{"10.9.9.8": true}, peers: make(map[string]func(net.Conn)), under: make(map[string]int),
	}
}

// ResolverFaults are what a resolver may answer, "well" among them. "elsewhere" is an address that refuses connections,
// "nowhere" one that does not answer them.
var ResolverFaults = []string{"well", "SERVFAIL", "NXDOMAIN", "empty", "silent", "elsewhere", "nowhere", "2 s late", "4 s late"}

func (r *Resolved) Resolver(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

// Moved has the resolver answer with another address for a name.
func (r *Resolved) Moved(name, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved[name] = address
}

// Gone has nobody answer at an address.
func (r *Resolved) Gone(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[address] = true
}

// Stranger has peer answer at an address.
func (r *Resolved) Stranger(address string, peer func(net.Conn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers[address] = peer
}

func (r *Resolved) lookup(ctx context.Context, host string) ([]string, error) {
	r.mu.Lock()
	fault := r.fault
	r.under[host]++
	r.most = max(r.most, r.under[host])
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.under[host]--
	}()
	for fault == "silent" { // asked again after 5 s, as resolvers do
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Second):
		}
		r.mu.Lock()
		fault = r.fault
		r.mu.Unlock()
	}
	var late time.Duration
	switch fault {
	case "SERVFAIL":
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	case "NXDOMAIN":
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case "empty":
		return nil, nil
	case "elsewhere":
		return []string{"10.9.9.9"}, nil
	case "nowhere":
		return []string{"10.9.9.8"}, nil
	case "2 s late", "4 s late":
		late = time.Duration(fault[0]-'0') * time.Second
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(late):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if address, ok := r.moved[host]; ok {
		return []string{address}, nil
	}
	return []string{"10.0.0." + strings.TrimSuffix(strings.TrimPrefix(host, "m"), ".example")}, nil
}

func (r *Resolved) connect(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	r.mu.Lock()
	gone, peer := r.gone[host], r.peers[host]
	r.mu.Unlock()
	switch {
	case gone:
		<-ctx.Done()
		return nil, ctx.Err()
	case peer != nil:
		here, there := net.Pipe()
		go peer(there) // ends with here
		return placed{here, &net.TCPAddr{IP: net.ParseIP(host), Port: 2379}}, nil
	}
	return r.Dial(ctx, address)
}

// placed is a connection to an address.
type placed struct {
	net.Conn
	there net.Addr
}

func (p placed) RemoteAddr() net.Addr { return p.there }

// Config has the names of the first n members.
func (r *Resolved) Config(n int) Config {
	cfg := Config{lookup: r.lookup, dial: r.connect, Logger: slog.New(slog.NewTextHandler(&r.log, nil))}
	for i := range n {
		cfg.Endpoints = append(cfg.Endpoints, fmt.Sprintf("m%d.example:2379", i+1))
	}
	return cfg
}

// Direct has their addresses.
func (r *Resolved) Direct() Config {
	return Config{Endpoints: []string{"10.0.0.1:2379"}, dial: r.connect}
}

func (r *Resolved) Log() string { return r.log.String() }

// MostAtOnce is how many lookups of one name were under way at once, at most.
func (r *Resolved) MostAtOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}
