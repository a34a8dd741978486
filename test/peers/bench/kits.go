//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// kit is one of the clients that are compared.
type kit interface {
	// dial connects to the server at addrs, of which the floor uses only the first.
	dial(ctx context.Context, addrs ...string) (client, error)
}

type client interface {
	// session grants a lease that is kept alive.
	session(ctx context.Context, ttl time.Duration) (session, error)
}

type session interface {
	locker(name string) locker
}

// locker repeatedly acquires one lock.
type locker interface {
	acquire(ctx context.Context) (held, error)
	// try returns a nil held when another holds it.
	try(ctx context.Context) (held, error)
}

type held interface {
	release(ctx context.Context) error
}

const (
	ours       = "pawl"
	oneSession = "pawl, one session" // all waiters of a chain share it; clientv3 cannot
	theirs     = "clientv3"
	bare       = "floor"
	watchful   = "floor, own key watched" // for queues, a waiter that notices the end of its key
	lone       = "pawl, alone"            // each of its writes is sent alone, however many workers there are
	batched    = "floor, batched"         // its transactions share requests too, without a check that they may
	dutiful    = "floor, bounded"         // requests end with their caller's context, or after a while

	plain     = "pawl, plain locks" // several where the others use a semaphore, one after another where they use a set
	served    = "pawld"             // a separate process between the workers and the server
	gatewayed = "v3lock, JSON"      // the server's lock service
)

var kits = map[string]kit{ours: pawlKit{}, oneSession: pawlKit{}, lone: pawlKit{alone: true}, theirs: peerKit{}, bare: floorKit{}, watchful: floorKit{own: true}, batched: floorKit{batched: true}, dutiful: floorKit{bounded: true},
	plain: plainKit{}, served: daemonKit{}, gatewayed: gatewayKit{}}

func kitOf(name string) (kit, error) {
	if k, ok := kits[name]; ok {
		return k, nil
	}
	return nil, fmt.Errorf("no kit %q", name)
}
