//go:build !linux

package doctor

// state reports that nothing is known.
func (d *doctor) state(string) {
	d.odd("state", "", "where pawld keeps its state is looked at on Linux only", "look at its --state-dir: a directory on disk that outlives the unit")
}
