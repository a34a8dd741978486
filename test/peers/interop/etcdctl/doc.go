// Package etcdctl tests pawl beside the real etcdctl. `etcdctl lock` and `etcdctl elect` exclude
// and observe pawl's locks and terms in etcd's layout, and are excluded and observed by them, those
// that wait included. It is a separate module, so that only these tests depend on etcdctl.
package etcdctl
