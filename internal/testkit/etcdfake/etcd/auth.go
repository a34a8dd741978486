package etcd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Root is the user, and the role, that may do everything.
const Root = "root"

// errNoPasswordUser has no dedicated gRPC error.
var errNoPasswordUser = status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")

// Auth holds users, roles and the tokens that were issued.
type Auth struct {
	Enabled  bool
	Revision uint64 // counts every change of users and roles
	Users    map[string]*User
	Roles    map[string][]*authpb.Permission
	tokens   map[string]*token
	Issued   int
	ttl      time.Duration
}

// User is a user by whom requests are sent.
type User struct {
	Password   string
	noPassword bool // it cannot authenticate
	Roles      map[string]bool
}

type token struct {
	user    string
	number  int       // how many tokens had been issued, this one included
	expires time.Time // extended by each use
}

// Identity is who sent a request, and at which revision of users and roles. nil is nobody.
type Identity struct {
	User     string
	revision uint64
}

// NewAuth returns an Auth that is off, whose tokens last for ttl after each use.
func NewAuth(ttl time.Duration) *Auth {
	return &Auth{
		Revision: 1, Users: map[string]*User{}, Roles: map[string][]*authpb.Permission{},
		tokens: map[string]*token{}, ttl: ttl,
	}
}

// Authenticate returns a token of the user called name.
func (a *Auth) Authenticate(now time.Time, name, password string) (string, error) {
	if !a.Enabled {
		return "", rpctypes.ErrGRPCAuthNotEnabled
	}
	u := a.Users[name]
	switch {
	case u == nil:
		return "", rpctypes.ErrGRPCAuthFailed
	case u.noPassword:
		return "", errNoPasswordUser
	case u.Password != password:
		return "", rpctypes.ErrGRPCAuthFailed
	}
	a.Issued++
	t := fmt.Sprintf("%016x.%d", rand.Uint64(), a.Issued)
	a.tokens[t] = &token{user: name, number: a.Issued, expires: now.Add(a.ttl)}
	return t, nil
}

// Identify returns whose token it is, on a member that does not know the first unknown tokens that
// were issued. An empty token is nobody's.
func (a *Auth) Identify(now time.Time, tok string, unknown int) (*Identity, error) {
	if !a.Enabled || tok == "" {
		return nil, nil
	}
	t := a.tokens[strings.TrimPrefix(tok, "Bearer ")]
	if t == nil || t.number <= unknown || now.After(t.expires) {
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	t.expires = now.Add(a.ttl)
	return &Identity{User: t.user, revision: a.Revision}, nil
}

// Forget invalidates the tokens of one user, or of all if name is "".
func (a *Auth) Forget(name string) {
	maps.DeleteFunc(a.tokens, func(_ string, t *token) bool { return name == "" || t.user == name })
}

// Required refuses nobody if auth is on.
func (a *Auth) Required(who *Identity) error {
	if a.Enabled && who == nil {
		return rpctypes.ErrGRPCUserEmpty
	}
	return nil
}

// Admin refuses everybody who does not have the root role.
func (a *Auth) Admin(who *Identity) error {
	if !a.Enabled {
		return nil
	}
	if who == nil {
		return rpctypes.ErrGRPCUserEmpty
	}
	u := a.Users[who.User]
	switch {
	case u == nil:
		return rpctypes.ErrGRPCUserNotFound
	case !u.Roles[Root]:
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}
