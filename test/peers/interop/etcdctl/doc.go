// Package etcdctl tests pawl beside the real etcdctl: `etcdctl lock` and `etcdctl
// elect` exclude and observe pawl's locks and terms in etcd's own layout, and are
// excluded and observed by them, those that wait included. It is a module of its
// own, so that etcdctl comes with nothing but these tests.
package etcdctl
