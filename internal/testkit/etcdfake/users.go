package etcdfake

import (
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// How users and roles change. Each change counts as one revision.

func (a *auth) enable() error {
	u := a.users[root]
	switch {
	case a.enabled:
		return nil
	case u == nil:
		return rpctypes.ErrGRPCRootUserNotExist
	case !u.roles[root]:
		return rpctypes.ErrGRPCRootRoleNotExist
	}
	a.enabled = true
	return nil
}

func (a *auth) disable() {
	if a.enabled {
		a.enabled = false
		a.revision++
		a.forget("")
	}
}

func (a *auth) addUser(r *pb.AuthUserAddRequest) error {
	switch {
	case r.Name == "":
		return rpctypes.ErrGRPCUserEmpty
	case a.users[r.Name] != nil:
		return rpctypes.ErrGRPCUserAlreadyExist
	}
	a.users[r.Name] = &user{password: r.Password, noPassword: r.Options.GetNoPassword(), roles: map[string]bool{}}
	a.revision++
	return nil
}

func (a *auth) deleteUser(name string) error {
	switch {
	case a.enabled && name == root:
		return rpctypes.ErrGRPCInvalidAuthMgmt
	case a.users[name] == nil:
		return rpctypes.ErrGRPCUserNotFound
	}
	delete(a.users, name)
	a.revision++
	a.forget(name)
	return nil
}

func (a *auth) changePassword(name, password string) error {
	u := a.users[name]
	if u == nil {
		return rpctypes.ErrGRPCUserNotFound
	}
	u.password = password
	a.revision++
	a.forget(name)
	return nil
}

func (a *auth) grantRole(name, role string) error {
	u := a.users[name]
	if u == nil {
		return rpctypes.ErrGRPCUserNotFound
	}
	if _, ok := a.roles[role]; !ok && role != root {
		return rpctypes.ErrGRPCRoleNotFound
	}
	if !u.roles[role] {
		u.roles[role] = true
		a.revision++
	}
	return nil
}

func (a *auth) revokeRole(name, role string) error {
	if a.enabled && name == root && role == root {
		return rpctypes.ErrGRPCInvalidAuthMgmt
	}
	u := a.users[name]
	switch {
	case u == nil:
		return rpctypes.ErrGRPCUserNotFound
	case !u.roles[role]:
		return rpctypes.ErrGRPCRoleNotGranted
	}
	delete(u.roles, role)
	a.revision++
	return nil
}

func (a *auth) addRole(name string) error {
	if name == "" {
		return rpctypes.ErrGRPCRoleEmpty
	}
	if _, ok := a.roles[name]; ok {
		return rpctypes.ErrGRPCRoleAlreadyExist
	}
	a.roles[name] = nil
	a.revision++
	return nil
}

func (a *auth) grantPermission(role string, p *authpb.Permission) error {
	if p == nil {
		return rpctypes.ErrGRPCPermissionNotGiven
	}
	key, end := string(p.Key), string(p.RangeEnd)
	if key == "" || end != "" && end != fromKey && key >= end {
		return rpctypes.ErrGRPCInvalidAuthMgmt
	}
	perms, ok := a.roles[role]
	if !ok {
		return rpctypes.ErrGRPCRoleNotFound
	}
	a.roles[role] = append(without(perms, key, end), p)
	a.revision++
	return nil
}

func (a *auth) revokePermission(role, key, end string) error {
	perms, ok := a.roles[role]
	if !ok {
		return rpctypes.ErrGRPCRoleNotFound
	}
	left := without(perms, key, end)
	if len(left) == len(perms) {
		return rpctypes.ErrGRPCPermissionNotGranted
	}
	a.roles[role] = left
	a.revision++
	return nil
}

func without(perms []*authpb.Permission, key, end string) []*authpb.Permission {
	return slices.DeleteFunc(slices.Clone(perms), func(p *authpb.Permission) bool {
		return string(p.Key) == key && string(p.RangeEnd) == end
	})
}
