// Package etcd is a model of one etcd store: keys and their history, leases,
// users and roles, and what each request does to them.
//
// It is pure: it has no goroutine, no network, no lock, and no clock but the instants that come in
// as arguments. The owner of a State guards it. Package etcdfake puts members, a network and faults
// around it.
//
// It guarantees:
//
//  1. A request is answered as by etcd 3.7.3, errors included. A request that is
//     refused changes nothing.
//  2. All writes of one request share one revision, greater than all before.
//  3. A lease takes all its keys with it, in one revision.
package etcd
