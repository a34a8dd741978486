// Package etcdfake is an etcd cluster in memory for tests. It has up to five members that share one
// linearizable state and speak real gRPC, with faults that can be switched on and off.
//
// It works inside a testing/synctest bubble. New starts nothing outside of it, time comes from
// package time, and Close ends every goroutine.
//
// What it promises:
//
//  1. Requests are answered as by etcd 3.7.3, headers and errors included. One conformance suite
//     runs on both. Snapshots, hashes, membership changes, RangeStream and what pawl and its tests
//     do not use are not served.
//  2. A lease is deleted 0 to 0.5 s after its expiry, never before, and gets its
//     full TTL again when the leader changes.
//  3. A fault does what its comment says, to the requests it names and to no others. Without faults
//     nothing is lost, delayed or repeated.
//  4. OnChange and History show every change, in order, at its moment.
//
// It differs from a real cluster in three ways. A request that needs agreement takes no time. All
// members see a change at the same moment unless a test says otherwise. A watch from a past
// revision is served at once.
package etcdfake
