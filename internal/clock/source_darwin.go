package clock

import "golang.org/x/sys/unix"

// runsOn runs during sleep on macOS. CLOCK_UPTIME_RAW, on which package time is built, stops.
const runsOn = unix.CLOCK_MONOTONIC_RAW
