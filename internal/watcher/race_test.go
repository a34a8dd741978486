//go:build race

package watcher

const manyWatches = 5_000 // the race detector makes each many times as costly
