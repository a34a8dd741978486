// Package fleet shows what a guard is worth. Processes that read, think and write under a lock are
// stopped past their lease, killed, and cut from the lock service and the store, at random. Afterwards
// no acknowledged write may be missing. Force shows that one would be missing without the guard: of two
// holders one overtakes the other, in an order that is forced.
//
// The lock service is a small authority in the parent process. It queues, grants leases of a fixed
// length with rising tokens, and passes the lock on when a lease has ended, whatever its holder does.
// Every lock service with leases can do that to a holder. It deliberately excludes less well than a
// careful client would, because the workers do not check their lease before they write. Nothing here
// shows anything about the lock; all of it is about the guard.
//
// If readers take part, every other round is theirs, under a lock that they share. What each has read
// must be what the writers before it had written, and nothing that a writer before it writes later. With
// one register in place of two, some that hold are refused, or some read what is overwritten later.
//
// For etcd the token is the create revision of a key that the authority makes for each lease and deletes
// at its end. See Issuer.
//
// A run lasts as long as it is set to, or longer if the machine is so busy that too little has happened.
// Leases get longer then, too.
//
// A worker is the test binary, run again, because TestMain calls Main first. Each worker writes what it
// does to a log, before and after, so that a run also leaves a history for fencetest.Check.
package fleet
