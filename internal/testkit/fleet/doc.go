// Package fleet shows what a guard is worth: processes that read, think and write under a lock are stopped past their lease, killed, and cut from the lock service and the
// store, at random; afterwards no acknowledged write may be missing. That one would be without the guard is shown by two holders of whom one overtakes the other, in an order that is forced: see Force.
//
// The lock service is a small authority in the parent process: it queues, grants leases of a fixed length with rising tokens, and passes the lock on when
// a lease has ended, whatever its holder does. That is what every lock service with leases can do to a holder; that it excludes less well than a careful
// client would is on purpose: the workers do not look at their lease before they write. Nothing here shows anything about the lock; all of it is about the guard.
//
// Where readers take part, every other turn is theirs, under a lock that they share: what each has read must be what the writers before it had written, and nothing
// that a writer before it writes later. With one register in place of two, some are refused that hold, or some read what is overwritten behind them.
//
// For etcd the token is the create revision of a key that the authority makes for each lease and deletes at its end: see Issuer.
//
// A run lasts as long as it is set to, and longer where the machine is so busy that too little has happened; leases get longer there too.
//
// A worker is the test binary, run again: TestMain calls Main first. Each worker writes what it does to a log of its own, before and
// after, so that a run leaves a history for fencetest.Check as well.
package fleet
