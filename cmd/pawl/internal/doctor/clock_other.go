//go:build !linux

package doctor

// clock reports that nothing is known.
func (d *doctor) clock() {
	d.odd("clock", "this machine", "the rate of its clock is checked on Linux only", "check by hand that something keeps it correct (ntpd, chronyd)")
}
