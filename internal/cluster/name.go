package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// lookupTotal bounds one lookup of a name.
	lookupTotal = 30 * time.Second
	// lookupPatience is how long a lookup may take before what is known of the name is used.
	lookupPatience = 500 * time.Millisecond
)

// name is the name of a host, and what the resolver said of it. The endpoints of a Cluster that have the
// same host share it.
//
// A lookup belongs to the name and not to the attempt to connect that wanted it. A resolver whose first
// server is gone answers after five seconds, and an attempt is over before that. If the lookup ended with
// it, it would begin again and again and never end.
type name struct {
	c      *Cluster
	host   string
	fixed  *lookup // of an IP literal, which needs no resolver; otherwise nil
	lookup func(ctx context.Context, host string) ([]string, error)

	mu    sync.Mutex
	hosts []string // the last answer that listed any; never changed in place
	under *lookup  // the only one under way, or nil
	amiss bool     // the last connection was made without, or against, the resolver's answer
}

// lookup is one question to the resolver.
type lookup struct {
	began time.Time
	done  chan struct{} // closed once hosts and err are final; err is nil if and only if hosts lists any
	hosts []string
	err   error
}

// nameOf returns the name of a host, which all callers share.
func (c *Cluster) nameOf(host string) *name {
	n := &name{c: c, host: host, lookup: c.cfg.lookup}
	if n.lookup == nil {
		n.lookup = net.DefaultResolver.LookupHost
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		n.fixed = &lookup{done: make(chan struct{}), hosts: []string{ip.Unmap().String()}} // as connections show it
		close(n.fixed.done)
	}
	shared, _ := c.names.LoadOrStore(host, n)
	return shared.(*name)
}

// resolve returns the hosts that the name stands for, and the lookup that was asked for them. It waits
// for the lookup, but no longer than lookupPatience if an earlier one has listed hosts. Those hosts are
// what it returns then, and if the lookup fails.
func (n *name) resolve(ctx context.Context) ([]string, *lookup, error) {
	l, known := n.look()
	late := make(<-chan time.Time)
	if len(known) > 0 {
		timer := time.NewTimer(time.Until(l.began.Add(lookupPatience)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-l.done:
	case <-late:
	case <-ctx.Done():
		return nil, l, n.late()
	}
	hosts, err := l.answer()
	if len(hosts) == 0 && len(known) > 0 {
		hosts, err = known, nil
	}
	return hosts, l, err
}

// late is the error of a lookup that has not been answered in time.
func (n *name) late() error {
	return &net.DNSError{Err: "the resolver has not answered", Name: n.host, IsTimeout: true, IsTemporary: true}
}

// pending reports whether the name has never been resolved, and a lookup is under way.
func (n *name) pending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.under != nil && len(n.hosts) == 0
}

// look returns the lookup that is under way, which it begins if there is none, and the hosts that are
// known.
func (n *name) look() (*lookup, []string) {
	if n.fixed != nil {
		return n.fixed, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.under == nil {
		l := &lookup{began: time.Now(), done: make(chan struct{})}
		if !n.c.Go(func() { n.run(l) }) { // ends within lookupTotal, or with Close
			l.err = ErrClosed
			close(l.done)
			return l, nil
		}
		n.under = l
	}
	return n.under, n.hosts
}

// run asks the resolver. The resolver may be the program's own, so nothing waits for it any longer than
// its context lasts.
func (n *name) run(l *lookup) {
	ctx, cancel := context.WithTimeout(n.c.life, lookupTotal)
	defer cancel()
	answers := make(chan lookup, 1)
	go func() { // ends with ctx
		hosts, err := n.lookup(ctx, n.host)
		answers <- lookup{hosts: hosts, err: err}
	}()
	var got lookup
	select {
	case got = <-answers:
	case <-ctx.Done():
		got.err = n.late()
	}
	if got.err == nil && len(got.hosts) == 0 {
		got.err = &net.DNSError{Err: "no such host", Name: n.host, IsNotFound: true}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.err = got.err; l.err == nil {
		l.hosts, n.hosts = got.hosts, got.hosts
	}
	n.under = nil
	close(l.done)
}

// answer returns what the resolver answered, or two nils if it has not answered.
func (l *lookup) answer() ([]string, error) {
	select {
	case <-l.done:
		return l.hosts, l.err
	default:
		return nil, nil
	}
}

// errUnlisted is why an address is used that only an earlier answer listed.
var errUnlisted = errors.New("the resolver's answer does not list it")

// connected records that l was asked, and that a connection to host was made, and reports whether the
// resolver's answer lists the host. It logs when that is the first connection without the resolver's
// answer, or against it, and when it is no longer so.
func (n *name) connected(l *lookup, endpoint, host string) (listed bool) {
	hosts, err := l.answer()
	switch {
	case slices.Contains(hosts, host):
		err = nil
	case len(hosts) > 0:
		err = errUnlisted
	case err == nil:
		err = n.late()
	}
	n.mu.Lock()
	was := n.amiss
	n.amiss = err != nil
	n.mu.Unlock()
	switch {
	case err != nil && !was:
		n.c.log.Warn("etcd endpoint is reached at an address of before", "endpoint", endpoint, "address", host, "error", err)
	case err == nil && was:
		n.c.log.Info("etcd endpoint is reached at an address that its name has", "endpoint", endpoint, "address", host)
	}
	return err == nil
}

// forget drops a host that only an earlier answer listed.
func (n *name) forget(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts = slices.DeleteFunc(slices.Clone(n.hosts), func(h string) bool { return h == host })
}

// isTemporary reports whether err is of a lookup that may succeed later, although nothing changes but the
// resolver.
func isTemporary(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && (dns.IsTimeout || dns.IsTemporary)
}
