package peer

import (
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
)

// A Limit bounds how many of something exist at a time, in all and for each owner.
type Limit struct {
	what string
	max  int
	each func(owner string) int

	mu      sync.Mutex
	all     int
	of      map[string]int // by owner
	refused int64          // how often Take returned an error
}

// NewLimit makes a Limit of most in all, and half of that for one owner, so that no owner keeps all
// others out. what names it in errors.
func NewLimit(what string, most int) *Limit {
	half := max(most/2, 1)
	return &Limit{what: what, max: most, each: func(string) int { return half }, of: make(map[string]int)}
}

// NewLimitOfEach makes a Limit for each owner separately, so that no owner depends on what others
// take.
func NewLimitOfEach(what string, each func(owner string) int) *Limit {
	return &Limit{what: what, max: math.MaxInt, each: each, of: make(map[string]int)}
}

// Counts are how many exist now, and how often more were refused.
func (l *Limit) Counts() (now int, refused int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all, l.refused
}

// Take takes one for an owner, who has to Give it back. The error says which bound is reached.
func (l *Limit) Take(owner string) error {
	each := l.each(owner)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.all >= l.max:
		l.refused++
		return fmt.Errorf("there are %d %s, and may be no more", l.all, l.what)
	case l.of[owner] >= each:
		l.refused++
		return fmt.Errorf("%s has %d %s, and may have no more", owner, l.of[owner], l.what)
	}
	l.all++
	l.of[owner]++
	return nil
}

// Give gives back what Take took.
func (l *Limit) Give(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[owner]--; l.of[owner] == 0 {
		delete(l.of, owner)
	}
}

// Listen returns a listener that closes connections beyond the limit at once, and calls refused
// with each error. On a Unix socket the owner is the user, otherwise the host.
func (l *Limit) Listen(of net.Listener, refused func(error)) net.Listener {
	return &limited{Listener: of, limit: l, refused: refused}
}

// ListenNewest is Listen, except that a connection beyond the limit replaces the oldest one of its
// owner, or else the oldest of all. So nobody keeps a newcomer out by leaving connections open.
func (l *Limit) ListenNewest(of net.Listener, refused func(error)) net.Listener {
	return &limited{Listener: of, limit: l, refused: refused, newest: true}
}

type limited struct {
	net.Listener
	limit   *Limit
	refused func(error)
	newest  bool

	mu   sync.Mutex
	open []*taken // if newest, the oldest first
}

// admit makes room, if newest.
func (l *limited) admit(owner string) error {
	err := l.limit.Take(owner)
	if err == nil || !l.newest {
		return err
	}
	l.refused(err)
	l.mu.Lock()
	i := max(slices.IndexFunc(l.open, func(c *taken) bool { return c.owner == owner }), 0)
	var oldest *taken
	if i < len(l.open) {
		oldest = l.open[i]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return l.limit.Take(owner)
}

// taken is a connection that counts until it is closed.
func (l *limited) taken(c net.Conn, owner string) net.Conn {
	t := &taken{Conn: c, owner: owner}
	t.give = sync.OnceFunc(func() {
		l.limit.Give(owner)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = slices.DeleteFunc(l.open, func(other *taken) bool { return other == t })
	})
	if l.newest {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, t)
	}
	return t
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		owner := ownerOf(c)
		if err := l.admit(owner); err != nil {
			_ = c.Close()
			l.refused(err)
			continue
		}
		return l.taken(c, owner), nil
	}
}

func ownerOf(c net.Conn) string {
	if u, ok := c.(*net.UnixConn); ok {
		if uid, _, err := credentials(u); err == nil {
			return fmt.Sprintf("uid:%d", uid)
		}
	}
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return "unknown"
	}
	return host
}

// A taken is a connection that counts until it is closed.
type taken struct {
	net.Conn
	owner string
	give  func()
}

// Close implements net.Conn.
func (c *taken) Close() error {
	defer c.give()
	return c.Conn.Close()
}

// unixOf is the Unix connection below c.
func unixOf(c net.Conn) (*net.UnixConn, bool) {
	if t, ok := c.(*taken); ok {
		c = t.Conn
	}
	u, ok := c.(*net.UnixConn)
	return u, ok
}
