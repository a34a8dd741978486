package blobfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
)

// DefaultAttempts is how often a Fence whose Attempts is 0 reads and writes before it gives up.
const DefaultAttempts = 12

// The errors of a Fence.
var (
	ErrUnknown   = errors.New("outcome unknown: it may have been applied")
	ErrContended = errors.New("others wrote the object each time")
)

// A Fence guards the objects of a store. It is a plain value; its methods are safe for concurrent use.
type Fence struct {
	Store    Store
	Attempts int // tries, DefaultAttempts if 0 or less; the pauses between them rise from some 5 ms to at most 1 s
}

// Read registers t for the object and returns the body. Once it has returned, nobody with a smaller
// token can change the object. If there is no object, the error matches ErrNotFound and t is still
// registered. A refusal is a *fencing.StaleError. Any other error leaves open whether t is
// registered.
func (f Fence) Read(ctx context.Context, name string, t fencing.Token) ([]byte, error) {
	return f.read(ctx, reading{store: f.Store, name: name, token: t, nonce: newNonce()})
}

// ReadShared is Read for t, the token of a shared lock. Once it has returned, nobody with a smaller
// exclusive token can change the object. It is refused if an exclusive token at least as great was
// registered. It writes only if no token as great was registered, so of several readers only those
// with the greatest tokens write.
func (f Fence) ReadShared(ctx context.Context, name string, t fencing.Token) ([]byte, error) {
	return f.read(ctx, reading{store: f.Store, name: name, token: t, shared: true, nonce: newNonce()})
}

func (f Fence) read(ctx context.Context, r reading) ([]byte, error) {
	if err := f.repeat(ctx, r.name, r.token, r.try); err != nil {
		return nil, wrap("read", r.name, err)
	}
	return r.body, nil
}

// Write stores body under t. A refusal is a *fencing.StaleError, and says that nothing was written. An
// error that matches ErrUnknown leaves the outcome open: the write may still be applied, until somebody
// else writes or registers a greater token; the same holder can write again. After any other error,
// nothing was written.
func (f Fence) Write(ctx context.Context, name string, t fencing.Token, body []byte) error {
	w := writing{store: f.Store, name: name, body: body, meta: Meta{Token: t, Nonce: newNonce()}}
	return wrap("write", name, w.settle(f.repeat(ctx, name, t, w.try)))
}

// Delete removes the object's body under t, and leaves a placeholder that keeps the token. It also
// returns nil if there is no object. Errors are those of Write.
func (f Fence) Delete(ctx context.Context, name string, t fencing.Token) error {
	w := writing{store: f.Store, name: name, meta: Meta{Token: t, Nonce: newNonce(), Absent: true}}
	return wrap("delete", name, w.settle(f.repeat(ctx, name, t, w.try)))
}

// wrap leaves a refusal as it is.
func wrap(op, name string, err error) error {
	var stale *fencing.StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("blobfence: %s %.64q: %w", op, name, err)
}

// A reading is one call of Read or ReadShared.
type reading struct {
	store  Store
	name   string
	token  fencing.Token
	shared bool
	nonce  string
	body   []byte
}

// admit returns what the object's metadata become, or a refusal.
func (r *reading) admit(m Meta) (Meta, error) {
	seen := m.Token
	if r.shared {
		seen = m.exclusive()
	}
	switch {
	case seen > r.token || r.shared && seen == r.token:
		return m, &fencing.StaleError{Resource: r.name, Got: r.token, Highest: seen}
	case !r.shared:
		return Meta{Token: r.token, Absent: m.Absent}, nil
	case m.Token < r.token:
		return Meta{Token: r.token, Ahead: r.token - seen, Absent: m.Absent}, nil
	}
	return m, nil
}

func (r *reading) try(ctx context.Context) (done bool, err error) {
	body, m, at, err := r.store.Get(ctx, r.name)
	if errors.Is(err, ErrNotFound) {
		body, m, at, err = nil, Meta{Absent: true}, "", nil
	}
	if err != nil {
		return true, err
	}
	next, err := r.admit(m)
	if err != nil {
		return true, err
	}
	if next.Token != m.Token || next.Ahead != m.Ahead {
		// The next read shows whether an unclear Put was applied. If it was, the token is in the
		// object.
		next.Nonce = r.nonce
		if err := r.store.Put(ctx, r.name, body, next, at); err != nil {
			return errors.Is(err, ErrNotApplied), err
		}
	}
	if m.Absent {
		return true, ErrNotFound
	}
	r.body = body
	return true, nil
}

// A writing is one call of Write or Delete.
type writing struct {
	store Store
	name  string
	body  []byte
	meta  Meta

	open bool    // a Put had no clear answer, and no later read has shown its outcome
	over Version // the version that it would replace
}

func (w *writing) try(ctx context.Context) (done bool, err error) {
	m, at, err := w.store.Stat(ctx, w.name)
	if errors.Is(err, ErrNotFound) {
		m, at, err = Meta{}, "", nil
	}
	t := w.meta.Token
	switch {
	case err != nil:
		return !w.open, err
	case m.Nonce == w.meta.Nonce:
		w.open = false
		return true, nil
	case m.Token > t && w.open: // ours may have been applied before the newer holder's, so it is no refusal
		return true, fmt.Errorf("token %d is there by now", int64(m.Token))
	case m.Token > t:
		return true, &fencing.StaleError{Resource: w.name, Got: t, Highest: m.Token}
	case m.Token == t && w.open && at != w.over: // a write of the same holder came, after ours or instead of it
		return true, errors.New("another write under the same token came in between")
	}
	// If an older holder's write came in between, ours was not applied, and never will be: the
	// version that it would replace is gone.
	w.open = w.open && at == w.over
	return w.put(ctx, at)
}

// put replaces version at.
func (w *writing) put(ctx context.Context, at Version) (done bool, err error) {
	switch err = w.store.Put(ctx, w.name, w.body, w.meta, at); {
	case err == nil:
		w.open = false
		return true, nil
	case errors.Is(err, ErrNotApplied):
		return true, err
	case !errors.Is(err, ErrChanged):
		w.open, w.over = true, at
	}
	return false, err
}

// settle adds to the last error of a writing whether its outcome is open.
func (w *writing) settle(err error) error {
	if err != nil && w.open {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
