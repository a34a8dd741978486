//go:build !linux && !netbsd

package supervise

import "golang.org/x/sys/unix"

const sharedClock = unix.CLOCK_MONOTONIC

// waitContinued has wait4 report a command that goes on.
const waitContinued = unix.WCONTINUED
