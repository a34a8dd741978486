package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// clockMonotonicRaw is the ID of CLOCK_MONOTONIC_RAW in <time.h>.
const clockMonotonicRaw = 4

// machine compares CLOCK_MONOTONIC_RAW, which runs during sleep on macOS, with
// CLOCK_UPTIME_RAW, on which package time is built and which stops.
func machine() Source {
	return offset(monotonic(), read(clockMonotonicRaw))
}

func read(id int32) func() time.Duration {
	return func() time.Duration {
		var ts unix.Timespec
		if unix.ClockGettime(id, &ts) != nil {
			return 0
		}
		return time.Duration(ts.Nano())
	}
}
