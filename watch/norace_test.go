//go:build !race

package watch

const manyWatches = 100_000
