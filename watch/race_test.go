//go:build race

package watch

const manyWatches = 5_000 // the race detector makes each many times as costly
