package observe

import (
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// A Shard identifies the hold of a shard in an event. The shard's lock also has the events of a
// lock, under the name in fencing.FromContext.
type Shard struct {
	Name  string // as given to shard.Run
	Shard int
	Token fencing.Token // of the hold
	Lease int64         // of the worker's session
}

// ShardHeld reports that a shard is held, and its work begins.
type ShardHeld struct{ Shard }

// A ShardEnd is why the hold of a shard has ended.
type ShardEnd string

const (
	ShardMoved  ShardEnd = "moved"  // another worker waited for it
	ShardLeft   ShardEnd = "left"   // the worker leaves
	ShardFailed ShardEnd = "failed" // its work returned by itself
	ShardLost   ShardEnd = "lost"   // its lock was lost
)

// ShardEnded reports that a shard is no longer held.
type ShardEnded struct {
	Shard
	Why  ShardEnd
	Took time.Duration // from ErrMoved to work's return; 0 if either is missing
	Err  error         // of a loss; matches lock.ErrLost and one cause
}

// ShardsCounted reports that a worker has counted the queues of all shards, as it does once a TTL,
// or has left.
type ShardsCounted struct {
	Name      string
	Lease     int64         // of the worker's session
	Shards    int           // how many the name has
	Held      int           // how many this worker has
	Unowned   int           // how many nobody has and nobody waits for, as far as the count shows
	Resting   int           // how many more nobody has on purpose, because they failed on several workers
	Unplanned time.Duration // for how long a worker that came has waited for a plan; 0 if none waits
	Left      bool          // it has left, so what it counted is no longer true

	Load       float64 // the sum of the loads of its shards, on average; 0 without shard.Options.Load
	Unmeasured int     // for how many of its shards that function returned no load when it was called last
}

// ShardsPlanned reports that a worker that plans has made a plan.
type ShardsPlanned struct {
	Name   string
	Lease  int64         // of the worker's session
	Wishes int           // how many workers' wishes it changes
	Waited time.Duration // since the first change that it was made for
	Uneven bool          // it was made for no change, but because the loads were uneven (shard.Options.Load)
}
