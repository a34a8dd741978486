package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is CLOCK_BOOTTIME, a clock that all processes of the machine share, and that nobody sets.
func Clock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("history: clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
