package wire

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Buffer is how many bytes may be on their way, as in a socket's buffers. A writer into a black
// hole does not notice it until they are full.
const Buffer = 1 << 20

// pipe is one direction of one connection: one reader, any writers.
type pipe struct {
	link *Link

	mu       sync.Mutex
	segments []segment
	size     int
	err      error         // why it ended, for the reader once all is read
	broken   bool          // it was reset, so nothing more is read or written
	moved    chan struct{} // closed at the next change; nil while nothing waits
	deadline time.Time     // of reads
}

type segment struct {
	at   time.Time
	data []byte
}

func newPipe(l *Link) *pipe { return &pipe{link: l} }

// stir wakes all waiters. The caller holds p.mu.
func (p *pipe) stir() {
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// change returns a channel that is closed at the next change. The caller holds p.mu.
func (p *pipe) change() <-chan struct{} {
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}

// end closes the pipe. If broken is set, what is on its way is lost too.
func (p *pipe) end(err error, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil || broken && !p.broken {
		p.err, p.broken = err, broken
		p.stir()
	}
}

func (p *pipe) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	p.stir()
}

func (p *pipe) write(b []byte) (int, error) {
	at := p.link.arrival()
	for {
		p.mu.Lock()
		if p.err != nil {
			defer p.mu.Unlock()
			return 0, writeError(p.err)
		}
		if p.size < Buffer {
			if n := len(p.segments); n > 0 && at.Before(p.segments[n-1].at) {
				at = p.segments[n-1].at // bytes do not overtake each other
			}
			p.segments = append(p.segments, segment{at, append([]byte(nil), b...)})
			p.size += len(b)
			p.stir()
			p.mu.Unlock()
			return len(b), nil
		}
		moved := p.change()
		p.mu.Unlock()
		<-moved
	}
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		held, changed := p.link.state()
		n, wait, moved, err := p.take(b, held)
		if n > 0 || err != nil {
			return n, err
		}
		var arrive <-chan time.Time
		var timer *time.Timer
		if wait > 0 {
			timer = time.NewTimer(wait)
			arrive = timer.C
		}
		select {
		case <-moved:
		case <-changed:
		case <-arrive:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// take reads what has arrived. If nothing has, it returns how long to wait at most (0 means no
// limit), and a channel to wait for.
func (p *pipe) take(b []byte, held bool) (n int, wait time.Duration, moved <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return 0, 0, nil, p.err
	}
	if !p.deadline.IsZero() {
		if wait = time.Until(p.deadline); wait <= 0 {
			return 0, 0, nil, os.ErrDeadlineExceeded
		}
	}
	if held { // not even the end arrives
		return 0, wait, p.change(), nil
	}
	if len(p.segments) == 0 {
		return 0, wait, p.change(), p.err
	}
	head := &p.segments[0]
	if !head.at.IsZero() {
		if d := time.Until(head.at); d > 0 {
			if wait == 0 || d < wait {
				wait = d
			}
			return 0, wait, p.change(), nil
		}
	}
	n = copy(b, head.data)
	head.data = head.data[n:]
	if len(head.data) == 0 {
		p.segments = p.segments[1:]
	}
	p.size -= n
	p.stir()
	return n, 0, nil, nil
}

func writeError(err error) error {
	if err == io.EOF {
		return syscall.EPIPE
	}
	return err
}
