package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// rateOf is how fast the kernel makes the clock run: how many millionths it is
// faster than the oscillator, and whether somebody keeps it right.
func rateOf() (ppm float64, kept bool, err error) {
	var t unix.Timex // Modes 0: it only reads
	if _, err := unix.Adjtimex(&t); err != nil {
		return 0, false, err
	}
	const nominal, perTick = 10_000, 100 // µs of a tick; a tick more or less a second's hundredth
	return float64(t.Tick-nominal)*perTick + float64(t.Freq)/(1<<16), t.Status&unix.STA_UNSYNC == 0, nil
}

// clock looks at the rate of this machine's clock: only that matters.
func (d *doctor) clock() {
	ppm, kept, err := rateOf()
	if err != nil {
		d.odd("clock", "this machine", fmt.Sprintf("the kernel does not say how fast its clock runs: %v", err), "check it by hand (chronyc tracking, timedatectl)")
		return
	}
	d.classifyRate(ppm, kept)
}
