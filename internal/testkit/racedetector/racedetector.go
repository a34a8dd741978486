// Package racedetector says whether a test runs under the race detector, which takes several
// times the time and memory. What would race is the code under a table, which is the same for
// many of its cells; what each cell asserts is asserted by the runs without the detector.
package racedetector

// Of returns under, or without the detector otherwise: a count of tries, the rows of a table.
func Of[T any](under, otherwise T) T {
	if On {
		return under
	}
	return otherwise
}
