package gate

import (
	"container/list"
	"context"
	"sync"
)

// A Line admits what it has room for. What has to wait is admitted in turn: of each source in the order in
// which it came, and of the sources one after the other, so that a source that has ten thousand waiting
// delays another by one of them. Loads and the room have the same unit.
//
// Invariant: while something waits, there is no room for the next.
type Line struct {
	mu      sync.Mutex
	room    int
	share   int                   // while narrowed, only this part of the room is used: a share-th
	narrow  int                   // how many have narrowed it
	inside  int                   // the sum of the loads that are inside
	sources map[Source]*list.List // what waits, by source; none is empty
	turns   list.List             // the sources, the next first
}

// NewLine returns a Line that has room for loads whose sum is room. While it is narrowed, it has a
// share-th of that.
func NewLine(room, share int) *Line {
	return &Line{room: room, share: share, sources: map[Source]*list.List{}}
}

// A Source is what enters a Line. It must be comparable.
type Source interface {
	// Load is the load of one piece now. It is called when there may be room, possibly more than once for
	// the same piece, and must not use the Line.
	Load() int
}

// A Place is what something that was admitted has of the room of a Line.
type Place struct {
	line *Line
	load int
}

// Leave gives the room back. It must be called once.
func (p Place) Leave() { p.line.leave(p.load) }

// inLine is something that waits.
type inLine struct {
	source   Source
	pieces   int
	admitted chan int // receives the load
}

func (w *inLine) load() int { return w.pieces * w.source.Load() }

// Enter waits for room for so many pieces of source together. If ctx ends first, or ended is closed, ok
// is false. A load that is larger than the whole room is admitted when nothing is inside. If there is
// room at once, Enter allocates nothing.
func (l *Line) Enter(ctx context.Context, ended <-chan struct{}, source Source, pieces int) (at Place, ok bool) {
	l.mu.Lock()
	if l.turns.Len() == 0 {
		if n := pieces * source.Load(); l.fits(n) {
			l.inside += n
			l.mu.Unlock()
			return Place{l, n}, true
		}
	}
	w := &inLine{source, pieces, make(chan int, 1)}
	element := l.wait(w)
	l.mu.Unlock()
	select {
	case n := <-w.admitted:
		return Place{l, n}, true
	case <-ctx.Done():
	case <-ended:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case n := <-w.admitted: // meanwhile
		return Place{l, n}, true
	default:
	}
	of := l.sources[source]
	of.Remove(element)
	if of.Len() == 0 {
		l.forget(source)
	}
	l.admit() // what comes next may be smaller
	return Place{}, false
}

// wait has w wait; l.mu is held.
func (l *Line) wait(w *inLine) *list.Element {
	of := l.sources[w.source]
	if of == nil {
		of = list.New()
		l.sources[w.source] = of
		l.turns.PushBack(w.source)
	}
	return of.PushBack(w)
}

// forget drops a source of which nothing waits; l.mu is held.
func (l *Line) forget(source Source) {
	delete(l.sources, source)
	for at := l.turns.Front(); at != nil; at = at.Next() {
		if at.Value == source {
			l.turns.Remove(at)
			return
		}
	}
}

func (l *Line) leave(load int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside -= load
	l.admit()
}

// Narrow leaves a part of the room unused until Widen is called as often as Narrow. It takes nothing from
// what is inside.
func (l *Line) Narrow() { l.narrowBy(1) }

// Widen ends what Narrow has begun.
func (l *Line) Widen() { l.narrowBy(-1) }

func (l *Line) narrowBy(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.narrow += n
	l.admit()
}

func (l *Line) fits(load int) bool {
	room := l.room
	if l.narrow > 0 {
		room /= l.share
	}
	return l.inside == 0 || l.inside+load <= room
}

// admit admits what waits, as long as there is room; l.mu is held.
func (l *Line) admit() {
	for l.turns.Len() > 0 {
		turn := l.turns.Front()
		source := turn.Value.(Source)
		of := l.sources[source]
		w := of.Front().Value.(*inLine)
		n := w.load()
		if !l.fits(n) {
			return
		}
		l.inside += n
		w.admitted <- n
		of.Remove(of.Front())
		if l.turns.MoveToBack(turn); of.Len() == 0 {
			delete(l.sources, source)
			l.turns.Remove(turn)
		}
	}
}
