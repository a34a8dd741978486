package main

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// acceptQuiet is for how long nothing may fail before connections count as accepted again: with a
// shortage of descriptors, each that is closed lets one in.
const acceptQuiet = 3 * time.Second

// accepting is a listener that says in the log when it can accept no connection, because the process
// has no free descriptor for example, and when it can again. net/http tries again within a second.
type accepting struct {
	net.Listener
	log *slog.Logger

	mu     sync.Mutex
	failed time.Time // since when, or zero
	again  *time.Timer
}

// Accept implements net.Listener.
func (a *accepting) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, net.ErrClosed):
	case err != nil:
		if a.again != nil {
			a.again.Stop()
			a.again = nil
		}
		if a.failed.IsZero() {
			a.failed = time.Now()
			a.log.Error("no connection can be accepted: clients are refused, or wait", "listener", a.Addr().String(), "cause", err)
		}
	case !a.failed.IsZero() && a.again == nil:
		a.again = time.AfterFunc(acceptQuiet, a.recovered) // runs once, and waits for nothing
	}
	return c, err
}

// recovered says that connections are accepted, unless another one failed meanwhile.
func (a *accepting) recovered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.again == nil {
		return
	}
	a.log.Info("connections are accepted again", "listener", a.Addr().String(), "after", time.Since(a.failed).Round(time.Second))
	a.failed, a.again = time.Time{}, nil
}
