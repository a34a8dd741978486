//go:build race

package racedetector

// On reports whether the race detector is compiled in.
const On = true
