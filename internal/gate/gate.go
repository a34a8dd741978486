// Package gate has a mutex whose waiters can give up: a Gate lets one goroutine at a time pass,
// or a fixed number of them, and a wait for it ends with a context.
//
// A free Gate is entered even if the context has ended, because some callers have work to do
// nevertheless: a release is sent although its context is done. What a caller does inside checks
// the context itself.
//
// Waiters enter in no promised order. In a synctest bubble a goroutine that waits for a Gate is
// durably blocked, which one that waits for a sync.Mutex is not.
package gate

import "context"

// A Gate is made by New. Copies of it are the same Gate.
type Gate struct {
	inside chan struct{} // has an element for each goroutine that is inside
}

// New returns a Gate that n goroutines at a time can be inside of.
func New(n int) Gate { return Gate{make(chan struct{}, n)} }

// Enter waits until there is room inside and enters. It returns false, and has not entered, if
// ctx ends first. A goroutine that has entered calls Leave.
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
