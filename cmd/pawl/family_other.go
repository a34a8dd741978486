//go:build !linux

package main

import "golang.org/x/sys/unix"

// dieWithParent does nothing: only Linux has such a thing.
func dieWithParent(*unix.SysProcAttr) {}

// adoptOrphans does nothing: the command's process group is all that is known of
// what it started.
func adoptOrphans() {}

func descendants() (pids []int, seen bool) { return nil, false }

func orphans() []int { return nil }
