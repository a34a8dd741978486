//go:build !linux && !darwin

package clock

import "time"

// machine reports no sleep. Only Instant.WallAhead detects sleep.
func machine() Source {
	return func(time.Time) time.Duration { return 0 }
}
