package etcdapi

import "go.etcd.io/etcd/api/v3/mvccpb"

// CreateRevision returns that of kv, or 0 if kv is nil. The type has a getter for it only since 3.7.
func CreateRevision(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.CreateRevision
}

// ModRevision returns that of kv, or 0 if kv is nil.
func ModRevision(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}
