//go:build !linux && !netbsd

package supervise

import "golang.org/x/sys/unix"

const sharedClock = unix.CLOCK_MONOTONIC
