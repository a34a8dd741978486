package doctor

import (
	"fmt"
	"math"
)

// These are the bounds of a clock's rate, in millionths. pawl's margin, a sixth of the TTL, covers
// two clocks that are each corrected by a tenth, which is the most that NTP does.
const (
	oddRate   = 1_000
	wrongRate = 100_000
)

// classifyRate classifies how far the clock's rate is corrected.
func (d *doctor) classifyRate(ppm float64, kept bool) {
	says := fmt.Sprintf("its clock is corrected by %.0f millionths", ppm)
	switch size := math.Abs(ppm); {
	case size > wrongRate:
		d.wrong("clock", "this machine", says+", more than pawl's margin covers", "find out what sets it, and let only NTP correct the clock")
	case size > oddRate:
		d.odd("clock", "this machine", says+": it is far off, and catching up", "wait until it has caught up, or find out what sets it wrong")
	case !kept:
		d.odd("clock", "this machine", says+", and nothing keeps it correct", "run an NTP client. pawl needs the clock's rate, not the time of day; the times in pawl show are wrong by as much")
	default:
		d.ok("clock", "this machine", "%s, and kept correct", says)
	}
}
