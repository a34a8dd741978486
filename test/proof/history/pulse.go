package history

import (
	"sync"
	"time"
)

// beat is how often a Pulse reads the clock.
const beat = 5 * time.Millisecond

// Pulse measures how late this process is. A goroutine tries to run every 5 ms, and what it is late
// by is time in which the machine ran others.
type Pulse struct {
	now  func() time.Duration
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	last  time.Duration
	lates []late
}

type late struct{ at, by time.Duration }

// StartPulse starts a pulse on the recorder's clock. It must be stopped.
func (r *Recorder) StartPulse() *Pulse {
	p := &Pulse{now: r.now, last: r.now(), stop: make(chan struct{}), done: make(chan struct{})}
	go p.run() // ends at Stop
	return p
}

func (p *Pulse) run() {
	defer close(p.done)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.stop:
			return
		}
		p.mu.Lock()
		now := p.now()
		if by := now - p.last - beat; by > beat {
			p.lates = append(p.lates, late{now, by})
		}
		p.last = now
		p.mu.Unlock()
	}
}

// Between is how late the process was in that time, in total.
func (p *Pulse) Between(from, to time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum time.Duration
	for _, l := range p.lates {
		if l.at >= from && l.at-l.by <= to {
			sum += l.by
		}
	}
	if by := to - p.last - beat; by > beat {
		sum += by // it is late at this moment
	}
	return sum
}

// Stop ends the pulse.
func (p *Pulse) Stop() {
	close(p.stop)
	<-p.done
}
