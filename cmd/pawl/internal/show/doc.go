// Package show has the commands that say who holds and who waits, ls, show, watch and observe, and break, which evicts
// the holder that was shown. They hold no lease, and but for break they write nothing.
//
// What they print was so at one revision, as package inspect reads it. They end as [cli.Run] says: with 1 where
// show -q or --holder finds nobody, and with 125 where break evicted nobody.
package show
