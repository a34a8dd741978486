// Package racedetector says whether a test runs under the race detector, which takes several times
// the time and memory. The code under a table is what could race, and it is the same for many of
// the table's cells. The runs without the detector check what each cell asserts.
package racedetector

// Of returns under, or otherwise without the detector, such as a count of tries, or the rows of a
// table.
func Of[T any](under, otherwise T) T {
	if On {
		return under
	}
	return otherwise
}
