package queue

import (
	"context"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Queue is the queue of one name, and the mode in which the name is acquired.
type Queue struct {
	keys.Queue

	Election bool  // campaigns and terms instead of locks
	Shared   bool  // held together with other shared keys (rules RW1 to RW5)
	resumed  int32 // one more than the slot of a resumed permit; 0 if it begins at the turnstile
	Limit    int   // how many slots its semaphore has; 0 if it is not a semaphore
}

// New checks name and makes its Queue (see keys.NewQueue).
func New(namespace, name string, etcdLayout bool) (Queue, error) {
	q, err := keys.NewQueue(namespace, name, etcdLayout)
	return Queue{Queue: q}, err
}

// spec returns what the names of an acquisition's keys in the queue are made of.
func (q Queue) spec() keys.Spec {
	p := keys.Spec{Prefix: q.Prefix}
	switch {
	case q.Shared:
		p.Form = keys.Shared
	case q.Limit > 0:
		p.Form = keys.Turnstile
	}
	return p
}

// owner returns the lease in the name of key, if key is in the queue and has pawl's form.
func (q Queue) owner(key string) (lease int64, ok bool) {
	k, ok := q.Parse(key)
	return k.Lease, ok
}

// withToken returns a child of ctx that carries the token. For a set the child carries none and
// hides an outer one, because a token belongs to one name.
func (a *Acquisition) withToken(ctx context.Context) context.Context {
	if a.isSet() {
		return fencing.NewContext(ctx, "", 0)
	}
	return a.ContextFor(ctx, a.queues[0].Name)
}

// ContextFor returns a child of ctx that carries the token of name, or of the slot of that
// semaphore, in the mode in which it is held. If name is not one of its names, the child carries no
// token.
func (a *Acquisition) ContextFor(ctx context.Context, name string) context.Context {
	for _, q := range a.queues {
		switch {
		case q.Name != name:
		case a.Slot() >= 0:
			return fencing.NewContext(ctx, keys.SlotResource(name, a.Slot()), a.Token())
		case q.Shared:
			return fencing.NewSharedContext(ctx, name, a.Token())
		default:
			return fencing.NewContext(ctx, name, a.Token())
		}
	}
	return fencing.NewContext(ctx, "", 0)
}
