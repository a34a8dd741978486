// Package cli is what the commands of pawl have in common: how they connect, what they take as arguments, what they
// write, and with which exit codes they end.
//
// # What it guarantees
//
//  1. Each error has one exit code (exit.go): wrong usage is distinct from a cluster that does not answer or refuses the
//     user, and from everything else.
//  2. Nothing that others wrote reaches a terminal raw ([Plain]), and advice can be pasted into a shell ([ShellWord]).
//  3. What JSON cannot carry is there in base64 too ([Base64]).
//  4. A command whose output could not be written does not end with exit code 0 ([Run]).
//
// # Failures
//
// Functions that reach the cluster return errors for [Reach], which gives them their exit codes.
package cli
