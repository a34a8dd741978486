// Package gate has a mutex whose waiters can give up. A Gate admits one goroutine at a time, or a fixed
// number of them, and a wait for it ends with a context.
//
// A free Gate is entered even if the context has ended, because some callers have work to do
// nevertheless. For example, a release is sent although its context is done. The caller checks the
// context inside if it has to.
//
// The order in which waiters enter is not defined. In a synctest bubble a goroutine that waits for a
// Gate is durably blocked, unlike one that waits for a sync.Mutex.
package gate

import "context"

// A Gate is made by New. Copies of it are the same Gate.
type Gate struct {
	inside chan struct{} // has an element for each goroutine that is inside
}

// New returns a Gate that admits n goroutines at a time.
func New(n int) Gate { return Gate{make(chan struct{}, n)} }

// Enter waits until there is room inside and enters. If ctx ends first, it does not enter, and returns
// false. A goroutine that has entered must call Leave.
func (g Gate) Enter(ctx context.Context) bool {
	select {
	case g.inside <- struct{}{}:
		return true
	default:
	}
	select {
	case g.inside <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Leave makes room for another goroutine.
func (g Gate) Leave() { <-g.inside }
