package pawl

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// ErrClusterChanged is matched by the error of every session and call of a
// Client once another cluster answers on its endpoints, or the cluster's
// revision went back, as after a restore. The Client grants no more sessions.
var ErrClusterChanged = cluster.ErrChanged

// ErrTokenFloor is matched by the error of an acquisition whose token would not
// exceed Config.TokenFloor.
var ErrTokenFloor = errors.New("fencing token would not exceed the configured floor")
