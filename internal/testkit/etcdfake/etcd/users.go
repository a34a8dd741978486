package etcd

import (
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// These methods change users and roles. Each change counts as one revision.

// Enable turns authentication on, for which root must be a user.
func (a *Auth) Enable() error {
	u := a.Users[Root]
	switch {
	case a.Enabled:
		return nil
	case u == nil:
		return rpctypes.ErrGRPCRootUserNotExist
	case !u.Roles[Root]:
		return rpctypes.ErrGRPCRootRoleNotExist
	}
	a.Enabled = true
	return nil
}

// Disable turns authentication off.
func (a *Auth) Disable() {
	if a.Enabled {
		a.Enabled = false
		a.Revision++
		a.Forget("")
	}
}

// AddUser adds a user.
func (a *Auth) AddUser(r *pb.AuthUserAddRequest) error {
	switch {
	case r.Name == "":
		return rpctypes.ErrGRPCUserEmpty
	case a.Users[r.Name] != nil:
		return rpctypes.ErrGRPCUserAlreadyExist
	}
	a.Users[r.Name] = &User{Password: r.Password, noPassword: r.Options != nil && r.Options.NoPassword, Roles: map[string]bool{}}
	a.Revision++
	return nil
}

// DeleteUser deletes a user.
func (a *Auth) DeleteUser(name string) error {
	switch {
	case a.Enabled && name == Root:
		return rpctypes.ErrGRPCInvalidAuthMgmt
	case a.Users[name] == nil:
		return rpctypes.ErrGRPCUserNotFound
	}
	delete(a.Users, name)
	a.Revision++
	a.Forget(name)
	return nil
}

// ChangePassword changes a password, and ends the user's tokens.
func (a *Auth) ChangePassword(name, password string) error {
	u := a.Users[name]
	if u == nil {
		return rpctypes.ErrGRPCUserNotFound
	}
	u.Password = password
	a.Revision++
	a.Forget(name)
	return nil
}

// GrantRole gives a user a role.
func (a *Auth) GrantRole(name, role string) error {
	u := a.Users[name]
	if u == nil {
		return rpctypes.ErrGRPCUserNotFound
	}
	if _, ok := a.Roles[role]; !ok && role != Root {
		return rpctypes.ErrGRPCRoleNotFound
	}
	if !u.Roles[role] {
		u.Roles[role] = true
		a.Revision++
	}
	return nil
}

// RevokeRole takes a role from a user.
func (a *Auth) RevokeRole(name, role string) error {
	if a.Enabled && name == Root && role == Root {
		return rpctypes.ErrGRPCInvalidAuthMgmt
	}
	u := a.Users[name]
	switch {
	case u == nil:
		return rpctypes.ErrGRPCUserNotFound
	case !u.Roles[role]:
		return rpctypes.ErrGRPCRoleNotGranted
	}
	delete(u.Roles, role)
	a.Revision++
	return nil
}

// AddRole adds a role without permissions.
func (a *Auth) AddRole(name string) error {
	if name == "" {
		return rpctypes.ErrGRPCRoleEmpty
	}
	if _, ok := a.Roles[name]; ok {
		return rpctypes.ErrGRPCRoleAlreadyExist
	}
	a.Roles[name] = nil
	a.Revision++
	return nil
}

// GrantPermission gives a role a permission.
func (a *Auth) GrantPermission(role string, p *authpb.Permission) error {
	if p == nil {
		return rpctypes.ErrGRPCPermissionNotGiven
	}
	key, end := string(p.Key), string(p.RangeEnd)
	if key == "" || end != "" && end != FromKey && key >= end {
		return rpctypes.ErrGRPCInvalidAuthMgmt
	}
	perms, ok := a.Roles[role]
	if !ok {
		return rpctypes.ErrGRPCRoleNotFound
	}
	a.Roles[role] = append(without(perms, key, end), p)
	a.Revision++
	return nil
}

// RevokePermission takes a permission from a role.
func (a *Auth) RevokePermission(role, key, end string) error {
	perms, ok := a.Roles[role]
	if !ok {
		return rpctypes.ErrGRPCRoleNotFound
	}
	left := without(perms, key, end)
	if len(left) == len(perms) {
		return rpctypes.ErrGRPCPermissionNotGranted
	}
	a.Roles[role] = left
	a.Revision++
	return nil
}

func without(perms []*authpb.Permission, key, end string) []*authpb.Permission {
	return slices.DeleteFunc(slices.Clone(perms), func(p *authpb.Permission) bool {
		return string(p.Key) == key && string(p.RangeEnd) == end
	})
}

// RoleNames are the user's roles in order.
func (u *User) RoleNames() []string { return slices.Sorted(maps.Keys(u.Roles)) }
