// Package doctor has the command that checks what locks rest on: the endpoints, the cluster, this machine's clock, the
// user's permissions, and the keys. Each finding says what to do.
//
// It grants one lease and revokes it, and writes nothing else. A check that fails does not keep the others from being
// made; the exit code is 1 where something is wrong, and 123 where no endpoint answers.
package doctor
