package pawlcertmagic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lock"
)

// Lock waits until the lock is held, or ctx ends.
func (s *Storage) Lock(ctx context.Context, name string) error {
	_, err := s.locks.lock(ctx, name, true)
	return err
}

// TryLock does not wait for another holder.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.locks.lock(ctx, name, false)
}

// Unlock releases the lock. It returns nil even if the lock was lost, because what was stored since
// was refused.
func (s *Storage) Unlock(ctx context.Context, name string) error { return s.locks.unlock(ctx, name) }

// RenewLockLease is called by certmagic before each try of an operation. The lock needs no
// renewal while its session lives; if it was lost, it is taken again, without waiting, so that
// what the next try stores is guarded by a lock that is held.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	return s.locks.renew(ctx, name)
}

// locks are the locks of one Storage.
type locks struct {
	sessions pawl.Sessions
	prefix   string

	mu    sync.Mutex
	slots map[string]*slot // by certmagic's name of the lock
}

// A slot is a name that goroutines of this process hold or wait for. One goroutine at a time is in
// it, from before its Acquire until its Unlock, even if it has lost its lock meanwhile: what it
// stores without knowing of the loss must be compared with its guard, not with a later one.
type slot struct {
	in   chan struct{} // holds one element while a goroutine is in
	held *lock.Held    // guarded by locks.mu; nil if not yet acquired
	wait int           // how many are in or wait; guarded by locks.mu
}

func (l *locks) lock(ctx context.Context, name string, wait bool) (bool, error) {
	r := l.enter(name)
	if !wait {
		select {
		case r.in <- struct{}{}:
		default:
			l.leave(name, r)
			return false, nil
		}
	} else {
		select {
		case r.in <- struct{}{}:
		case <-ctx.Done():
			l.leave(name, r)
			return false, context.Cause(ctx)
		}
	}
	m := lock.New(l.sessions, l.prefix+name, lock.Options{})
	acquire := m.TryAcquire
	if wait {
		acquire = m.Acquire
	}
	h, err := acquire(ctx)
	if err != nil {
		<-r.in
		l.leave(name, r)
		if !wait && errors.Is(err, lock.ErrBusy) {
			return false, nil
		}
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.held = h
	return true, nil
}

func (l *locks) enter(name string) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.slots[name]
	if r == nil {
		r = &slot{in: make(chan struct{}, 1)}
		l.slots[name] = r
	}
	r.wait++
	return r
}

func (l *locks) leave(name string, r *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.wait--; r.wait == 0 {
		delete(l.slots, name)
	}
}

// take returns the Held of a name that is locked here, and removes it if forget is set.
func (l *locks) take(name string, forget bool) (*slot, *lock.Held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.slots[name]
	if r == nil || r.held == nil {
		return nil, nil, fmt.Errorf("certmagic: %q is not locked", name)
	}
	h := r.held
	if forget {
		r.held = nil
	}
	return r, h, nil
}

func (l *locks) unlock(ctx context.Context, name string) error {
	r, h, err := l.take(name, true)
	if err != nil {
		return err
	}
	err = h.Release(ctx)
	<-r.in
	l.leave(name, r)
	if errors.Is(err, lock.ErrLost) {
		return nil
	}
	return err
}

func (l *locks) renew(ctx context.Context, name string) error {
	r, h, err := l.take(name, false)
	if err != nil || h.Err() == nil {
		return err
	}
	h, err = lock.New(l.sessions, l.prefix+name, lock.Options{}).TryAcquire(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.held = h
	return nil
}

// guards returns the guards of the locks held here that guard a key.
func (l *locks) guards(key string, deletes bool) (guards []kv.Guard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, r := range l.slots {
		if r.held != nil && Guards(name, key, deletes) {
			guards = append(guards, r.held.Guard())
		}
	}
	return guards
}

// Guards reports whether the lock of this name, while a Storage holds it, guards what the Storage
// writes to the key. deletes marks a deletion. certmagic does not say under which lock it stores,
// but by its names:
//
//	issue_cert_DOMAIN          files of that domain
//	register_acme_account…     accounts
//	ari_…                      what is known of certificates (their .json)
//	storage_clean              its own record, and the deletion of certificates and staples
//	another                    files with the lock's name in their path
func Guards(lock, key string, deletes bool) bool {
	parts := strings.Split(clean(key), "/")
	domain, issues := strings.CutPrefix(lock, "issue_cert_")
	switch {
	case issues:
		return slices.Contains(parts, certmagic.StorageKeys.Safe(domain))
	case strings.HasPrefix(lock, "register_acme_account"):
		return parts[0] == "acme"
	case strings.HasPrefix(lock, "ari_"):
		return parts[0] == "certificates" && strings.HasSuffix(key, ".json")
	case lock == "storage_clean":
		return parts[0] == "last_clean.json" || deletes && (parts[0] == "certificates" || parts[0] == "ocsp")
	}
	return slices.Contains(parts, lock)
}
