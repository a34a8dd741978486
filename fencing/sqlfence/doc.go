// Package sqlfence guards rows of a SQL database with fencing tokens, inside the caller's transaction.
//
// A Fence keeps two registers of each resource in a table: the highest token, and the highest exclusive
// one. A holder of the lock calls Admit first in each transaction:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	err = fence.Admit(ctx, tx, held.Name(), held.Token())   // before the first read
//	… read, compute, write …
//	err = tx.Commit()
//
// Readers that hold a shared lock register their token once, in a separate transaction, and call
// AdmitShared first in each transaction that reads:
//
//	err := fence.Register(ctx, db, held.Name(), held.Token())     // before the first read
//	…
//	err = fence.AdmitShared(ctx, tx, held.Name(), held.Token())
//
// A Row does the same for tables that keep the token in one of their columns, in one statement and
// without a transaction.
//
// # Guarantees
//
//  1. Once a transaction in which a token was admitted has been committed, Admit refuses every
//     smaller token of that resource, with a *fencing.StaleError, and writes nothing.
//  2. From Admit to the transaction's end, nobody else is admitted for the resource. A greater token
//     waits as well as a smaller one (or fails with the database's error for a lock that was not free in
//     time). So admission, reads and writes of the transaction are one step.
//  3. Once a shared token was registered, Admit refuses every smaller exclusive one. AdmitShared
//     refuses a token that is not registered, and one below a committed exclusive token. From
//     AdmitShared to the transaction's end readers are admitted and no writer is; in SQLite a
//     writer is, and the transaction reads the state of before it.
//  4. A transaction that is rolled back, or that dies with its connection, leaves no trace of its token.
//
// They hold at each database's default isolation level (READ COMMITTED in PostgreSQL, REPEATABLE
// READ in MySQL and MariaDB, there with and without innodb_snapshot_isolation, serializable in
// SQLite), at the stricter ones, and at READ COMMITTED in MySQL and MariaDB, on one primary. They
// do not hold across the members of a cluster that accepts writes in several places (Galera, Group
// Replication in multi-primary mode), unless all writers of a resource use one member.
//
// # What the caller does
//
// Call Admit before the first read of the transaction. In MySQL and MariaDB a transaction reads the
// state at its first plain SELECT, so what is read after a late Admit can be older than it. Read and
// write in one transaction, or begin with one that only calls Admit and commits; a registration that was
// rolled back protects nothing.
//
// Database errors other than a refusal (a deadlock, a serialization failure, a lock wait that timed
// out, a busy file) come back wrapped, and say that nothing was admitted: roll back, and begin
// again with a new transaction. MySQL rolls only the statement back when a lock wait times out, so
// do not go on with that transaction. When Commit fails, the outcome is open; the same transaction
// can be run again with the same token.
//
// # SQLite
//
// A file shared by several processes needs a busy timeout, and transactions that take the write
// lock when they begin. With modernc.org/sqlite the data source is
//
//	file:PATH?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// Without a timeout a second writer fails at once with SQLITE_BUSY. Without immediate transactions
// one that reads before Admit cannot wait: its snapshot is old when the other writer is done, and
// it fails with SQLITE_BUSY whatever the timeout. Neither admits a stale token. A process that is
// stopped within a transaction keeps the file's write lock for as long as it is stopped, as with
// any writer, so think before you begin the transaction, not within. The file must lie on a local
// disk.
//
// # Failures
//
//	*fencing.StaleError        a greater token was committed: the lock is lost, nothing was written
//	ErrNotRegistered           a shared token that was not registered: call Register
//	fencing.ErrNoToken         token zero or negative
//	fencing.ErrNoResource      resource empty, or longer than 1 KiB
//	ErrNoTable                 the table is not there: call Create once
//	ErrBadName                 a table's or column's name that is not [A-Za-z_][A-Za-z0-9_]*, at most 63 characters
//	ErrNoRow                   (Row) no such row
package sqlfence
