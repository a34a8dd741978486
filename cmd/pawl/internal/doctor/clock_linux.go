package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// rateOf is the rate of the kernel's clock: how many millionths it is faster than the
// oscillator, and whether it is synchronized.
func rateOf() (ppm float64, kept bool, err error) {
	var t unix.Timex // with Modes 0 it only reads
	if _, err := unix.Adjtimex(&t); err != nil {
		return 0, false, err
	}
	const nominal, perTick = 10_000, 100 // µs of a tick; a tick more or less a second's hundredth
	return float64(t.Tick-nominal)*perTick + float64(t.Freq)/(1<<16), t.Status&unix.STA_UNSYNC == 0, nil
}

// clock checks the rate of this machine's clock, the only property of the clock that matters.
func (d *doctor) clock() {
	ppm, kept, err := rateOf()
	if err != nil {
		d.odd("clock", "this machine", fmt.Sprintf("the kernel does not say how fast its clock runs: %v", err), "check it by hand (chronyc tracking, timedatectl)")
		return
	}
	d.classifyRate(ppm, kept)
}
