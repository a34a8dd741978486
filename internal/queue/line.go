package queue

import "github.com/pawl-locks/pawl/internal/keys"

// A Line is where those who want one name queue.
type Line struct {
	keys.Queue

	Election bool // what an observer is told: campaigns and terms, or else locks
}

// NewLine checks name and makes its line.
func NewLine(namespace, name string, etcdLayout bool) (Line, error) {
	q, err := keys.NewQueue(namespace, name, etcdLayout)
	return Line{Queue: q}, err
}

// owner is the lease of a key under the line whose form is pawl's.
func (l Line) owner(key string) (lease int64, ok bool) {
	k, ok := l.Parse(key)
	return k.Lease, ok
}
