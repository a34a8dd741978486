//go:build !race

package watch

const manyWatches = 60_000
