package supervise

import "golang.org/x/sys/unix"

const sharedClock = unix.CLOCK_BOOTTIME

// waitContinued makes wait4 report a command that continues.
const waitContinued = unix.WCONTINUED
