// Package demo has the command that shows what pawl does: contenders in processes of their own on an etcd server in
// this one, and a SQLite file that checks fencing tokens. What it says it has checked, and nothing is left behind.
package demo
