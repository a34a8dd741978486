package batch

import "github.com/pawl-locks/pawl/internal/gate"

const (
	// FewKeys is the number of keys of a lease up to which an enqueue counts the same.
	FewKeys = 500
	// mostKeys is the room of each line: the sum, over what is under way, of the keys of its lease.
	mostKeys = 100_000
	// lateShare is the part of it that enqueues have while a renewal is late.
	lateShare = 8
)

// Lines bound how many enqueues and how many releases of one client are under way. What is under way
// delays everybody at the server: other clients, and the client's own renewals. So the enqueues' line is
// narrowed while a renewal is late. Releases do not wait for enqueues.
type Lines struct{ Enqueues, Releases *gate.Line }

func newLines() Lines {
	return Lines{gate.NewLine(mostKeys, lateShare), gate.NewLine(mostKeys, lateShare)}
}
