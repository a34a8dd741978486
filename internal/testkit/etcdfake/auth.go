package etcdfake

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

const root = "root" // the user, and the role, that may do everything

// errNoPasswordUser has no gRPC error of its own.
var errNoPasswordUser = status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user")

// auth holds users, roles and the tokens that were given out.
type auth struct {
	enabled  bool
	revision uint64 // counts every change of users and roles
	users    map[string]*user
	roles    map[string][]*authpb.Permission
	tokens   map[string]*token
	issued   int
	ttl      time.Duration
}

type user struct {
	password   string
	noPassword bool // it cannot authenticate
	roles      map[string]bool
}

type token struct {
	user    string
	expires time.Time // moved on by each use
}

// identity is who sent a request, and when in the history of users and roles:
// nil is nobody.
type identity struct {
	user     string
	revision uint64
}

func newAuth(ttl time.Duration) *auth {
	return &auth{
		revision: 1, users: map[string]*user{}, roles: map[string][]*authpb.Permission{},
		tokens: map[string]*token{}, ttl: ttl,
	}
}

func (a *auth) authenticate(now time.Time, name, password string) (string, error) {
	if !a.enabled {
		return "", rpctypes.ErrGRPCAuthNotEnabled
	}
	u := a.users[name]
	switch {
	case u == nil:
		return "", rpctypes.ErrGRPCAuthFailed
	case u.noPassword:
		return "", errNoPasswordUser
	case u.password != password:
		return "", rpctypes.ErrGRPCAuthFailed
	}
	a.issued++
	t := fmt.Sprintf("%016x.%d", rand.Uint64(), a.issued)
	a.tokens[t] = &token{user: name, expires: now.Add(a.ttl)}
	return t, nil
}

// identify tells who a token belongs to. An empty token is nobody's.
func (a *auth) identify(now time.Time, tok string) (*identity, error) {
	if !a.enabled || tok == "" {
		return nil, nil
	}
	t := a.tokens[strings.TrimPrefix(tok, "Bearer ")]
	if t == nil || now.After(t.expires) {
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	t.expires = now.Add(a.ttl)
	return &identity{user: t.user, revision: a.revision}, nil
}

// forget invalidates the tokens of one user, or with "" of all.
func (a *auth) forget(name string) {
	maps.DeleteFunc(a.tokens, func(_ string, t *token) bool { return name == "" || t.user == name })
}

// required refuses nobody where auth is on.
func (a *auth) required(who *identity) error {
	if a.enabled && who == nil {
		return rpctypes.ErrGRPCUserEmpty
	}
	return nil
}

// admin refuses all who do not have the root role.
func (a *auth) admin(who *identity) error {
	if !a.enabled {
		return nil
	}
	if who == nil {
		return rpctypes.ErrGRPCUserEmpty
	}
	u := a.users[who.user]
	switch {
	case u == nil:
		return rpctypes.ErrGRPCUserNotFound
	case !u.roles[root]:
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}
