package supervise

import "golang.org/x/sys/unix"

const sharedClock = unix.CLOCK_BOOTTIME

// waitContinued has wait4 report a command that goes on.
const waitContinued = unix.WCONTINUED
