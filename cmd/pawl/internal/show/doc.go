// Package show has the commands that show who holds and who waits (ls, show, watch and observe) and
// break, which evicts the holder that was shown. They hold no lease, and only break writes.
//
// What they print is the state at one revision, as package inspect reads it. They end as [cli.Run]
// says, with 1 if show -q or --holder finds nobody, and with 125 if break evicted nobody.
package show
