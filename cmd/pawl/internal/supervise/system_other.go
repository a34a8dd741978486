//go:build !linux && !netbsd

package supervise

import "golang.org/x/sys/unix"

const sharedClock = unix.CLOCK_MONOTONIC

// waitContinued makes wait4 report a command that continues.
const waitContinued = unix.WCONTINUED
