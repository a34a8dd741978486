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
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
)

// Resolver is a resolver that may be at fault.
type Resolver struct {
	mu    sync.Mutex
	fault string
	under map[string]int // lookups under way
	most  int            // at once, of one name
}

// ResolverFaults are what a resolver may answer, "well" among them. "elsewhere" is an address that refuses connections,
// "nowhere" one that does not answer them.
var ResolverFaults = []string{"well", "SERVFAIL", "NXDOMAIN", "empty", "silent", "elsewhere", "nowhere", "2 s late", "4 s late"}

// Resolve gives the resolver a fault.
func (r *Resolver) Resolve(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

func (r *Resolver) now() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// count counts a lookup until the function that it returns is called.
func (r *Resolver) count(host string) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under == nil {
		r.under = make(map[string]int)
	}
	r.under[host]++
	r.most = max(r.most, r.under[host])
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.under[host]--
	}
}

// MostAtOnce is how many lookups of one name were under way at once, at most.
func (r *Resolver) MostAtOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// answer is what a lookup of host returns, where it would be right.
func (r *Resolver) answer(ctx context.Context, host string, right func() []string) ([]string, error) {
	defer r.count(host)()
	fault := r.now()
	for fault == "silent" { // asked again after 5 s, as resolvers do
		if err := pass(ctx, 5*time.Second); err != nil {
			return nil, err
		}
		fault = r.now()
	}
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
		if err := pass(ctx, time.Duration(fault[0]-'0')*time.Second); err != nil {
			return nil, err
		}
	}
	return right(), nil
}

func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Resolved is a cluster of three members, each with a name of its own.
type Resolved struct {
	*etcdfake.Cluster
	Resolver
	log syncbuffer.Buffer

	moved map[string]string         // by name, an address that is not its member's first
	gone  map[string]bool           // addresses where nobody answers
	peers map[string]func(net.Conn) // by address, who answers there in place of a member
}

func NewResolved() *Resolved {
	return &Resolved{
		Cluster: etcdfake.New(etcdfake.Options{Members: 3}),
		moved:   make(map[string]string), gone: map[string]bool{"10.9.9.8": true}, peers: make(map[string]func(net.Conn)),
	}
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
	return r.answer(ctx, host, func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if address, ok := r.moved[host]; ok {
			return []string{address}
		}
		return []string{"10.0.0." + strings.TrimSuffix(strings.TrimPrefix(host, "m"), ".example")}
	})
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
