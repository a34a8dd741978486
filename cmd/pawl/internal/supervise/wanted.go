package supervise

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// wanted is whether the command still has to be sent its Sign, and since when.
type wanted struct {
	since  time.Time // zero if not
	warned bool
}

func (w *wanted) begin() { w.since = time.Now() }

// AwareWithin is how long a command may take to catch its Sign before the user is told. Tests of real processes
// set it.
var AwareWithin = 5 * time.Second

// sendSign sends the command its Sign if that is wanted and the command catches it. A program that has
// just started may not catch it yet, and would die of it, as would its children, which are sent nothing.
// A signal that is meant to end a program is sent at once.
func (j *job) sendSign() {
	w := &j.wanted
	switch {
	case w.since.IsZero(), j.ended:
	case (Signal{Number: j.Sign}).Deadly(), catches(j.pid, j.Sign):
		_ = unix.Kill(j.pid, j.Sign)
		w.since = time.Time{}
	case !w.warned && time.Since(w.since) > AwareWithin:
		w.warned = true
		j.warn(fmt.Sprintf("somebody waits for the lock, and %s does not catch %s: it is sent that once it does", j.Argv[0], unix.SignalName(j.Sign)))
	}
}
