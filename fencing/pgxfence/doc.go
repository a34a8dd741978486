// Package pgxfence guards rows of a PostgreSQL database with fencing tokens, inside the caller's pgx
// transaction. It is package sqlfence for those who use pgx without database/sql: the same table, the
// same guarantees, and the same errors. Both can guard one resource together. It is a separate module,
// so that only its users depend on pgx.
//
//	tx, err := pool.Begin(ctx)
//	…
//	err = fence.Admit(ctx, tx, held.Name(), held.Token())   // before the first read
//	… read, compute, write …
//	err = tx.Commit(ctx)
//
// # Guarantees
//
//  1. Once a transaction in which a token was admitted has been committed, Admit refuses every
//     smaller token of that resource, with a *fencing.StaleError, and writes nothing.
//  2. From Admit to the transaction's end, nobody else is admitted for the resource. So admission, reads
//     and writes of the transaction are one step.
//  3. Once a shared token was registered, Admit refuses every smaller exclusive one. AdmitShared
//     refuses a token that is not registered, and one below a committed exclusive token. From
//     AdmitShared to the transaction's end readers are admitted and no writer is.
//  4. A transaction that is rolled back, or that dies with its connection, leaves no trace of its token.
//
// They hold at READ COMMITTED, PostgreSQL's default, and at the stricter levels, on one primary.
// Package sqlfence says what the caller does.
//
// # Failures
//
//	*fencing.StaleError        a greater token was committed: the lock is lost, nothing was written
//	fencing.ErrNoToken         token zero or negative
//	fencing.ErrNoResource      resource empty, or longer than 1 KiB
//	ErrNotRegistered           a shared token that was not registered: call Register
//	ErrNoTable                 the table is not there: call Create once
//	ErrBadName                 a table's name that is not [A-Za-z_][A-Za-z0-9_]*, at most 63 characters
package pgxfence
