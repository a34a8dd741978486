// Package faultproxy is a proxy on loopback, or at a unix socket, that delays, holds up, cuts and
// refuses connections, for tests that talk to a real etcd or a real store.
//
// A proxy without faults forwards every byte, in order, and also the end of each direction. Heal
// forwards what a fault held up; a cut loses it.
package faultproxy
