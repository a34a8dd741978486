package etcdfake

import (
	"go.etcd.io/etcd/api/v3/authpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

// Access is what a user may do on the keys that begin with Prefix.
type Access struct {
	Prefix      string
	Read, Write bool
}

// EnableAuth adds the user root with that password, and makes the cluster require authentication.
func (c *Cluster) EnableAuth(password string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.state.Auth
	a.Users[etcd.Root] = &etcd.User{Password: password, Roles: map[string]bool{etcd.Root: true}}
	a.Revision++
	a.Enabled = true
}

// DisableAuth makes the cluster require no authentication.
func (c *Cluster) DisableAuth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Auth.Disable()
}

// SetUser adds a user, or gives it another password, and exactly that access. The tokens of a user
// whose password changes become invalid.
func (c *Cluster) SetUser(name, password string, access ...Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.state.Auth
	if u := a.Users[name]; u == nil {
		a.Users[name] = &etcd.User{Password: password, Roles: map[string]bool{name: true}}
	} else if u.Password != password {
		u.Password = password
		a.Forget(name)
	}
	a.Roles[name] = nil
	for _, x := range access {
		a.Roles[name] = append(a.Roles[name], x.permission())
	}
	a.Revision++
}

// ForgetTokens makes every token given out so far invalid, as a restart does.
func (c *Cluster) ForgetTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Auth.Forget("")
}

// Tokens is how many tokens were given out so far.
func (c *Cluster) Tokens() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Auth.Issued
}

func (x Access) permission() *authpb.Permission {
	p := &authpb.Permission{Key: []byte(orFirst(x.Prefix)), RangeEnd: []byte(prefixEnd(x.Prefix))}
	switch {
	case x.Read && x.Write:
		p.PermType = etcdapi.PermissionReadWrite
	case x.Write:
		p.PermType = etcdapi.PermissionWrite
	default:
		p.PermType = etcdapi.PermissionRead
	}
	return p
}
