// Package hold has the commands that hold something, lock and elect. It determines how they wait, what
// they write, and how they end. Package supervise runs the COMMAND, and ends it.
//
// # What it guarantees
//
//  1. COMMAND is started only after the lock or the term was acquired. A signal that arrives before COMMAND
//     is started ends the wait, and COMMAND is not started.
//  2. The lock is released, and its lease revoked, however pawl ends except by KILL, and only after
//     COMMAND has ended.
//  3. COMMAND finds the innermost lock in its environment, the fencing token included.
//  4. stdout belongs to COMMAND. Without a COMMAND pawl prints there what is held, one line for each
//     event. --json prints the same as objects, with base64 for what JSON cannot represent.
//  5. With -n, and after --wait, pawl prints the holder's name and returns -E's code. With -E 0 it
//     prints nothing. -n puts no key after another's.
//  6. With --pid the lock is released, or the wait ends, when that process has ended. The process
//     gets TERM when the lock is lost, and pawl deletes no key before it has ended or --grace has
//     passed. It never gets TERM after it has ended, even if another process has its number by then
//     (Linux).
//  7. Nobody has to read what pawl reports: notices hold up neither a wait, nor a command's start,
//     nor a signal ([cli.Notices]).
//
// # Failures
//
// Errors carry the exit codes of package cli: ExitLost for a lost lock or term, ExitNotAcquired or
// -E's for -n and --wait, ExitNotFound and ExitNoExec for the program, 128+n for a signal.
//
// # What it does not do
//
// --pid ends only the process with that number. After a loss, the processes that it has started run on.
package hold
