package clock

import "golang.org/x/sys/unix"

// runsOn runs during suspend. CLOCK_MONOTONIC, on which package time is built, stops.
const runsOn = unix.CLOCK_BOOTTIME
