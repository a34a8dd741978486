// Package doctor has the command that checks what locks depend on: the endpoints, the cluster, this
// machine's clock, the user's permissions, and the keys. With --daemon it checks pawld, as a client
// of it. Each finding says what to do.
//
// It grants one lease and revokes it, and writes nothing else. Through pawld it acquires one lock
// and releases it. A check that fails does not prevent the others. The exit code is 1 if something
// is wrong, and 123 if no endpoint answers.
package doctor
