// Command pawl acquires locks and leads elections on etcd from a shell.
//
//	pawl demo                              what it does, shown in fifteen seconds; needs nothing but Go
//	pawl dev                               an etcd server on loopback, to try things on
//	pawl lock NAME                         hold a lock until a signal
//	pawl lock NAME -- COMMAND…             run a command while holding it
//	pawl elect NAME VALUE [-- COMMAND…]    lead, and run a command while leading
//	pawl observe NAME                      print who leads, one line for each change
//	pawl ls, show, watch, top              who holds, who waits, and what happens
//	pawl ui                                the same, as a page for a browser
//	pawl break NAME                        take a lock or a term from its holder
//	pawl reap DIR                          free what killed processes held, at once
//	pawl doctor                            check the cluster and the keys, and say what to do
//
// Endpoints and credentials come from flags or from the ETCDCTL_* variables. It
// runs on Linux, macOS and the BSDs.
//
// # What it promises
//
//  1. The command runs only while the lock is held. It, and all that it started, is dead before the
//     lock's deadline, which comes before anybody else can acquire the lock. That is so whichever
//     process is killed. See internal/supervise, which also says what this rests on.
//  2. The command sees the lock's fencing token in PAWL_TOKEN.
//  3. The lease is revoked on every way out but KILL, after the command has
//     ended.
//  4. The exit code distinguishes the command's end from a lost lock, from one that was not
//     acquired, from wrong usage and from a cluster that does not answer. See internal/cli.
//
// pawl cannot rule out what no client can: both of its processes can be stopped in the same
// instant, or the whole machine. Give PAWL_TOKEN to storage that checks it.
package main

import (
	"os"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

func main() { os.Exit(cli.Run(newRoot(), os.Args[1:])) }
