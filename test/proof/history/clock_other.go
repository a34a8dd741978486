//go:build !linux

package history

import "time"

// Clock is the wall clock, which all processes of the machine share.
func Clock() time.Duration { return time.Duration(time.Now().UnixNano()) }
