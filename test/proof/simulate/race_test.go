//go:build race

package simulate

// slower is how many times fewer scenarios run with the race detector.
const slower = 8
