// Package demo has the command that shows what pawl does. It runs contenders in separate processes
// and an etcd server in this process, and uses a SQLite file as storage that checks fencing tokens. It
// checks everything that it says, and leaves nothing behind.
package demo
