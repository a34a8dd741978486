// Package bufdial makes the in-memory connections of tests one after the other.
//
// bufconn makes timers for a connection that fire at once, and the runtime runs them in the
// goroutine that makes them. In a synctest bubble under the race detector, all of those share one
// context of the detector, and two threads that use it at the same time crash (seen with Go 1.26 in
// runtime.(*timer).unlockAndRun, and also with nothing but time.AfterFunc(0) in several goroutines
// of a bubble).
package bufdial

import (
	"context"
	"net"

	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/internal/gate"
)

// A Dialer makes one connection at a time. One Dialer serves all connections of a bubble.
type Dialer struct{ gate.Gate }

// New makes a Dialer, in the bubble that it is for.
func New() Dialer { return Dialer{gate.New(1)} }

// Dial is l.DialContext, once no other dial is under way.
func (d Dialer) Dial(ctx context.Context, l *bufconn.Listener) (net.Conn, error) {
	if !d.Enter(ctx) {
		return nil, ctx.Err()
	}
	defer d.Leave()
	return l.DialContext(ctx)
}
