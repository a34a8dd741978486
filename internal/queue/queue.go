package queue

import "github.com/pawl-locks/pawl/internal/keys"

// A Queue is where all who want one name queue.
type Queue struct {
	keys.Queue

	Election bool // what an observer is notified of: campaigns and terms, or else locks
}

// New checks name and makes its queue: see keys.NewQueue.
func New(namespace, name string, etcdLayout bool) (Queue, error) {
	q, err := keys.NewQueue(namespace, name, etcdLayout)
	return Queue{Queue: q}, err
}

// owner is the lease of a key of the queue whose form is pawl's.
func (q Queue) owner(key string) (lease int64, ok bool) {
	k, ok := q.Parse(key)
	return k.Lease, ok
}
