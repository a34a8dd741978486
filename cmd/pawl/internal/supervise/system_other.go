//go:build !linux && !netbsd

package supervise

import "golang.org/x/sys/unix"

const sharedClock = unix.CLOCK_MONOTONIC

// waitContinued is that wait4 tells of a command that goes on.
const waitContinued = unix.WCONTINUED
