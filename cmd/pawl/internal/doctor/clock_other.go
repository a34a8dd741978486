//go:build !linux

package doctor

// clock reports that nothing is known.
func (d *doctor) clock() {
	d.odd("clock", "this machine", "how fast its clock runs is looked at on Linux only", "check by hand that something keeps it right (ntpd, chronyd)")
}
