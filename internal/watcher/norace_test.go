//go:build !race

package watcher

const manyWatches = 60_000
