// Package embedded runs the real etcd server, one member, without a network. Its gRPC services are
// served on an in-memory connection. So it works inside a testing/synctest bubble, where an hour of
// its time takes a tenth of a second.
//
// What it promises:
//
//  1. It is etcd's server, storage and consensus included, with etcd's default timings.
//  2. All its goroutines end before Stop returns, so that its bubble can end.
//  3. Several can run at the same time, each in a separate bubble.
//
// It keeps its data in the test's temporary directory and does not wait for
// the disk. Its files are real, so time stands still in the bubble while it
// reads or writes them.
package embedded
