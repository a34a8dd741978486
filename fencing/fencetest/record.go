package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// A Recorder is a SharedStore that notes what passes through it to one of the instances of a store.
// It is safe for concurrent use.
type Recorder struct {
	store Store
	who   string
	to    *tape
}

type tape struct {
	start     time.Time
	instances []Store

	mu   sync.Mutex
	next int // instance
	ops  []Op
}

// Record returns a Recorder of what is done through it to the first of several instances of one store.
func Record(s Store, others ...Store) *Recorder {
	return &Recorder{store: s, to: &tape{start: time.Now(), instances: append([]Store{s}, others...)}}
}

// As returns a Recorder that notes to the same history under another name. The instances take turns.
func (r *Recorder) As(who string) *Recorder {
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.next++
	return &Recorder{r.to.instances[r.to.next%len(r.to.instances)], who, r.to}
}

// History returns what was noted so far, for Check.
func (r *Recorder) History() []Op {
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	return append([]Op(nil), r.to.ops...)
}

// Read is the store's.
func (r *Recorder) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return r.read(ctx, resource, t, false, r.store.Read)
}

// ReadShared is the store's. If the store is no SharedStore, its error matches errors.ErrUnsupported,
// and nothing is noted.
func (r *Recorder) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	s, ok := r.store.(SharedStore)
	if !ok {
		return "", fmt.Errorf("fencetest: %w: the store has no shared tokens", errors.ErrUnsupported)
	}
	return r.read(ctx, resource, t, true, s.ReadShared)
}

func (r *Recorder) read(ctx context.Context, resource string, t fencing.Token, shared bool, read func(context.Context, string, fencing.Token) (string, error)) (string, error) {
	call := time.Since(r.to.start)
	value, err := read(ctx, resource, t)
	r.note(Op{Kind: Read, Resource: resource, Token: t, Shared: shared, Value: value, Call: call}, err)
	return value, err
}

// Write is the store's.
func (r *Recorder) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	call := time.Since(r.to.start)
	err := r.store.Write(ctx, resource, t, value)
	r.note(Op{Kind: Write, Resource: resource, Token: t, Value: value, Call: call}, err)
	return err
}

func (r *Recorder) note(o Op, err error) {
	o.Return, o.Who = time.Since(r.to.start), r.who
	o.Outcome, o.Highest = OutcomeOf(err)
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.ops = append(r.to.ops, o)
}

// OutcomeOf returns what an error of a Store says, and the highest token of a refusal. It returns
// Unknown for an error that it does not know.
func OutcomeOf(err error) (Outcome, fencing.Token) {
	var stale *fencing.StaleError
	switch {
	case err == nil:
		return Applied, 0
	case errors.As(err, &stale):
		return Refused, stale.Highest
	case errors.Is(err, fencing.ErrNoToken), errors.Is(err, fencing.ErrNoResource):
		return NotApplied, 0
	}
	return Unknown, 0
}
