package etcdfake

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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

// permitted tells whether who may do typ on all of [key, end).
func (a *auth) permitted(who *identity, key, end string, typ authpb.Permission_Type) error {
	if !a.enabled {
		return nil
	}
	if who == nil {
		return rpctypes.ErrGRPCUserEmpty
	}
	if who.revision < a.revision {
		return rpctypes.ErrGRPCAuthOldRevision
	}
	u := a.users[who.user]
	if u == nil {
		return rpctypes.ErrGRPCPermissionDenied
	}
	if u.roles[root] || covered(a.granted(u, typ), key, end) {
		return nil
	}
	return rpctypes.ErrGRPCPermissionDenied
}

// granted returns the ranges, sorted by their start, on which u may do typ.
func (a *auth) granted(u *user, typ authpb.Permission_Type) []span {
	var out []span
	for role := range u.roles {
		for _, p := range a.roles[role] {
			if p.PermType == typ || p.PermType == authpb.Permission_READWRITE {
				out = append(out, span{string(p.Key), string(p.RangeEnd)})
			}
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.key, b.key) })
	return out
}

// covered tells whether the ranges, taken together, hold every key of [key, end).
func covered(ranges []span, key, end string) bool {
	if end == "" {
		return slices.ContainsFunc(ranges, func(s span) bool { return inRange(key, s.key, s.end) })
	}
	reached := key
	for _, s := range ranges {
		if s.key > reached {
			return false
		}
		switch {
		case s.end == fromKey:
			return true
		case s.end == "":
			if s.key == reached {
				reached = s.key + "\x00"
			}
		case s.end > reached:
			reached = s.end
		}
		if end != fromKey && reached >= end {
			return true
		}
	}
	return false
}

func (s *state) mayRange(who *identity, key, end []byte) error {
	return s.auth.permitted(who, string(key), string(end), authpb.Permission_READ)
}

func (s *state) mayPut(who *identity, r *pb.PutRequest) error {
	if err := s.auth.permitted(who, string(r.Key), "", authpb.Permission_WRITE); err != nil {
		return err
	}
	if err := s.mayWriteLease(who, r.Lease); err != nil {
		return err
	}
	if r.PrevKv {
		return s.mayRange(who, r.Key, nil)
	}
	return nil
}

func (s *state) mayDelete(who *identity, r *pb.DeleteRangeRequest) error {
	if err := s.auth.permitted(who, string(r.Key), string(r.RangeEnd), authpb.Permission_WRITE); err != nil {
		return err
	}
	if r.PrevKv {
		return s.mayRange(who, r.Key, r.RangeEnd)
	}
	return nil
}

// mayTxn checks both branches, whichever runs.
func (s *state) mayTxn(who *identity, r *pb.TxnRequest) error {
	for _, c := range r.Compare {
		if err := s.mayRange(who, c.Key, c.RangeEnd); err != nil {
			return err
		}
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if err := s.mayOp(who, op); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *state) mayOp(who *identity, op *pb.RequestOp) error {
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return s.mayRange(who, o.RequestRange.Key, o.RequestRange.RangeEnd)
	case *pb.RequestOp_RequestPut:
		return s.mayPut(who, o.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return s.mayDelete(who, o.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return s.mayTxn(who, o.RequestTxn)
	}
	return nil
}

// mayWriteLease asks for write permission on every key of the lease: a put on
// it, its renewal and its revocation all need that.
func (s *state) mayWriteLease(who *identity, id int64) error {
	ls := s.lessor.leases[id]
	if ls == nil || s.auth.admin(who) == nil {
		return nil
	}
	for _, k := range ls.sortedKeys() {
		if err := s.auth.permitted(who, k, "", authpb.Permission_WRITE); err != nil {
			return err
		}
	}
	return nil
}
