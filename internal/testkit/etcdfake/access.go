package etcdfake

import (
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
)

// Access is what a user may do on the keys that begin with Prefix.
type Access struct {
	Prefix      string
	Read, Write bool
}

// EnableAuth adds the user root with that password, and asks for
// authentication from now on.
func (c *Cluster) EnableAuth(password string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.state.auth
	a.users[root] = &user{password: password, roles: map[string]bool{root: true}}
	a.revision++
	a.enabled = true
}

// DisableAuth asks for no authentication any more.
func (c *Cluster) DisableAuth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.auth.disable()
}

// SetUser adds a user, or gives it another password, and exactly that access.
// Tokens of a user whose password changes are no longer good.
func (c *Cluster) SetUser(name, password string, access ...Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.state.auth
	if u := a.users[name]; u == nil {
		a.users[name] = &user{password: password, roles: map[string]bool{name: true}}
	} else if u.password != password {
		u.password = password
		a.forget(name)
	}
	a.roles[name] = nil
	for _, x := range access {
		a.roles[name] = append(a.roles[name], x.permission())
	}
	a.revision++
}

// ForgetTokens makes every token given out so far invalid, as a restart does.
func (c *Cluster) ForgetTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.auth.forget("")
}

// Tokens is how many tokens were given out so far.
func (c *Cluster) Tokens() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.auth.issued
}

func (x Access) permission() *authpb.Permission {
	p := &authpb.Permission{Key: []byte(orFirst(x.Prefix)), RangeEnd: []byte(prefixEnd(x.Prefix))}
	switch {
	case x.Read && x.Write:
		p.PermType = authpb.Permission_READWRITE
	case x.Write:
		p.PermType = authpb.Permission_WRITE
	default:
		p.PermType = authpb.Permission_READ
	}
	return p
}

func (u *user) roleNames() []string { return slices.Sorted(maps.Keys(u.roles)) }
