// Package hold has the commands that hold something, lock and elect: how they wait, what they write, and how they end.
// Package supervise runs the COMMAND, and ends it.
//
// # What it guarantees
//
//  1. COMMAND is started only after the lock or the term was acquired, and a signal that came before it was started ends
//     the wait: it is not started.
//  2. The lock is given back, and its lease revoked, on every way out but KILL, and only after COMMAND has ended.
//  3. COMMAND finds the innermost lock in its environment, the fencing token included.
//  4. stdout belongs to COMMAND. Without a COMMAND it says what is held, a line an event; --json writes the same as
//     objects, and what JSON cannot carry in base64 too.
//  5. With -n, and after --wait, the name of the holder is said and -E's code returned; with -E 0 nothing is said. -n
//     puts no key behind another's.
//  6. With --pid the lock is given back, or the wait ends, when that process has ended. It gets TERM when the lock is
//     lost, and never once it has ended, even if its number belongs to another process by then (Linux).
//
// # Failures
//
// Errors carry the exit codes of package cli: ExitLost for a lost lock or term, ExitNotAcquired or -E's for -n and
// --wait, ExitNotFound and ExitNoExec for the program, 128+n for a signal.
//
// # What it does not do
//
// --pid ends nothing but the wait: what that process has started runs on after a loss.
package hold
