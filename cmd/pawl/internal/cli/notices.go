package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Notices writes what a command has to say besides its work. A Write only puts the text into a queue,
// so a terminal that Ctrl-S has stopped, or a pipe that nobody reads, holds up nothing that a notice
// reports. A goroutine writes the queue, as long as there is something in it. If too much waits, further
// text is dropped, and counted. Notices are safe for concurrent use.
type Notices struct {
	w io.Writer

	mu      sync.Mutex // never held during a write
	waiting bytes.Buffer
	dropped int
	idle    chan struct{} // closed when all is written; nil if nothing is to be written
	stuck   chan struct{} // the idle for which an Await has waited in vain
	err     error         // of the first write that failed
}

// maxWaiting is how many bytes wait at most.
const maxWaiting = 64 << 10

// NewNotices returns Notices that are written to w.
func NewNotices(w io.Writer) *Notices { return &Notices{w: w} }

// Stderr has everything that pawl writes to its stderr while it holds something or waits for it.
var Stderr = NewNotices(os.Stderr)

// Write puts p, whole lines, into the queue. It returns no error.
func (n *Notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting.Len()+len(p) > maxWaiting {
		n.dropped++
		return len(p), nil
	}
	n.waiting.Write(p)
	if n.idle == nil {
		n.idle = make(chan struct{})
		go n.work() // ends when the queue is empty; Await waits for it
	}
	return len(p), nil
}

// work writes until nothing waits.
func (n *Notices) work() {
	for text := n.next(); len(text) > 0; text = n.next() {
		if _, err := n.w.Write(text); err != nil {
			n.mu.Lock()
			if n.err == nil {
				n.err = err
			}
			n.mu.Unlock()
		}
	}
}

// next removes what waits, and returns it. If there is nothing, the goroutine of work ends.
func (n *Notices) next() []byte {
	n.mu.Lock()
	dropped := n.dropped
	n.dropped = 0
	text := bytes.Clone(n.waiting.Bytes())
	n.waiting.Reset()
	n.stuck = nil
	if len(text) == 0 {
		close(n.idle)
		n.idle = nil
	}
	n.mu.Unlock()
	if dropped > 0 {
		fmt.Fprintf(Stderr, "pawl: %s of what was to be said here dropped, because nobody read it\n", Count(dropped, "line"))
	}
	return text
}

// Await waits until all is written, but no longer than within, and not at all if it has waited before
// and nothing was written since. It reports whether all is written.
func (n *Notices) Await(within time.Duration) bool {
	n.mu.Lock()
	idle, stuck := n.idle, n.stuck
	n.mu.Unlock()
	if idle == nil {
		return true
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	if stuck == idle {
		timer.Reset(0)
	}
	select {
	case <-idle:
		return true
	case <-timer.C:
		n.mu.Lock()
		n.stuck = idle
		n.mu.Unlock()
		return false
	}
}

// Err returns the error of the first write that failed.
func (n *Notices) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// NoticeGrace is how long pawl waits for its notices to be written before it starts a command, so that
// they come before what the command writes, and before it ends.
const NoticeGrace = time.Second
