// Package cli is what the commands of pawl have in common: how they connect, their arguments, their
// output, and their exit codes.
//
// # What it guarantees
//
//  1. Each error has one exit code (exit.go). Wrong usage differs from a cluster that does not answer or
//     refuses the user, and from everything else.
//  2. Text from others never reaches a terminal raw ([Plain]), and advice can be pasted into a
//     shell ([ShellWord]).
//  3. JSON also has in base64 what it cannot represent ([Base64]).
//  4. A command whose output could not be written does not end with exit code 0 ([Run]).
//
// # Failures
//
// Functions that use the cluster return errors for [Reach], which adds their exit codes.
package cli
