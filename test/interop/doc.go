// Package interop tests that pawl, in etcd's own layout, excludes and observes
// clientv3's concurrency package, and is excluded and observed by it. Its
// Mutex and Election are what `etcdctl lock` and `etcdctl elect` call.
package interop
