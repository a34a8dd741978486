package pawl

import (
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// ErrClusterChanged is matched by the error of every session and call of a Client after another cluster
// has answered on its endpoints, or the cluster's revision went back, as after a restore. The Client no
// longer grants sessions.
var ErrClusterChanged = cluster.ErrChanged

// ErrTokenFloor is matched by the error of an acquisition whose token is not above
// Config.TokenFloor.
var ErrTokenFloor = state.ErrTokenFloor
