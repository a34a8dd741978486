// Package interop tests that pawl, in etcd's layout, excludes and observes clientv3's concurrency
// package, and is excluded and observed by it. Its Mutex and Election, on a session, are all that
// `etcdctl lock` and `etcdctl elect` call. The module in the directory etcdctl tests these commands
// themselves. etcd's lock and election services, which programs without a client call, run the same
// package in the server.
package interop
