package etcdapi

import (
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Enum values, whose names have a prefix since 3.7.
const (
	EventPut    mvccpb.Event_EventType = 0
	EventDelete mvccpb.Event_EventType = 1

	PermissionRead      authpb.Permission_Type = 0
	PermissionWrite     authpb.Permission_Type = 1
	PermissionReadWrite authpb.Permission_Type = 2
)
