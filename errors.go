package pawl

import (
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// ErrClusterChanged is matched by the error of every session and call of a
// Client once another cluster answers on its endpoints, or the cluster's
// revision went back, as after a restore. The Client grants no more sessions.
var ErrClusterChanged = cluster.ErrChanged

// ErrTokenFloor is matched by the error of an acquisition whose token would not
// exceed Config.TokenFloor.
var ErrTokenFloor = state.ErrTokenFloor
