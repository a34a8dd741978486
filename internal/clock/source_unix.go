//go:build linux || darwin

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// machine compares the clock runsOn with the one on which package time is built.
func machine() Source {
	return offset(monotonic(), func() time.Duration {
		var ts unix.Timespec
		if unix.ClockGettime(runsOn, &ts) != nil {
			return 0 // every kernel that Go supports has both clocks
		}
		return time.Duration(ts.Nano())
	})
}
