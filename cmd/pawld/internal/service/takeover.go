package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Resume takes over what a predecessor saved: first its session at etcd, which is then renewed, and then
// each lock. What cannot be taken over is lost, and its client learns that. It is called before any
// other method. It returns an error if nothing was taken over. If ctx ends first, that is
// ErrInterrupted: when this process has ended, another can take all of it over with saved, if that is
// claimed.
func (s *Service) Resume(ctx context.Context, saved Saved) (taken int, err error) {
	host, err := hooks.HostOf(s.client)
	if err != nil {
		return 0, err
	}
	longest := s.cfg.Registry.MaxTTL // no client believes in a lock for longer
	for _, from := range saved.Sessions {
		longest = max(longest, from.TTL) // the predecessor may have had another bound
	}
	until := clock.Now().Add(longest) // no client believes for longer in what the predecessor held
	whole := false                    // all of what still has a key is promised here
	done := host.Deferral.Begin()     // what the predecessor promised keeps the lease, until it is promised here
	own, err := s.takeOver(ctx, saved)
	defer func() {
		if own == nil || whole && own.Err() == nil {
			done() // the lease is left alone, or everything is promised
			return
		}
		go func() { // bounded
			session.AwaitInstant(context.Background(), until)
			done()
		}()
	}()
	within, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	var wg sync.WaitGroup
	limit := make(chan struct{}, resumers)
	restored := make([]registry.Saved, len(saved.Sessions))
	for i, from := range saved.Sessions {
		to := registry.Saved{ID: from.ID, Identity: from.Identity, TTL: from.TTL, Provisional: from.Provisional, Ended: from.Ended, Rows: make([]registry.SavedRow, len(from.Rows))}
		for j, r := range from.Rows {
			to.Rows[j] = registry.SavedRow{Request: r.Request, Params: r.params(), State: r.State, Why: r.Why.cause(), Left: r.Left}
			if r.State != registry.Held {
				continue
			}
			wg.Add(1)
			go func() { // returns when within or the session ends; waited for below
				defer wg.Done()
				limit <- struct{}{}
				defer func() { <-limit }()
				s.takeOne(within, own, r, &to.Rows[j], from.TTL, until)
			}()
		}
		restored[i] = to
	}
	wg.Wait()
	if ctx.Err() != nil {
		return 0, ErrInterrupted
	}
	s.mu.Lock()
	defer s.unlock()
	s.registry.Restore(restored, clock.Now())
	whole = true
	for i, from := range restored {
		for j, r := range from.Rows {
			was := saved.Sessions[i].Rows[j]
			if was.State == registry.Held && r.State == registry.Lost {
				s.cfg.Logger.Warn("a lock is lost: it is not taken over", "name", namesOf(r.Params.Text), "cause", r.Why)
			}
			switch {
			case r.Holding != nil:
				taken++
				s.watchTaken(registry.Ref{Session: from.ID, Request: r.Request}, r)
			case was.State == registry.Held && r.State == registry.Lost && (len(was.Keys) > 1 || !errors.Is(r.Why, lock.ErrKeyDeleted)):
				whole = false
				s.keep(until)
			}
		}
	}
	return taken, err
}

// ErrInterrupted is the error of a takeover that its context ended.
var ErrInterrupted = errors.New("the takeover was interrupted")

// Claimed is what a process writes in place of s before it takes it over, so that the next one can
// continue the takeover if the process ends meanwhile. It has to be discarded before the process serves.
func (s Saved) Claimed() Saved {
	s.Handle = session.Claim(s.Handle)
	return s
}

// takeOver makes pawld's session from a Handle. It tries for as long as the lease may last. If a
// lock is incomplete, nothing is taken over, because its keys would stay in their queues for as
// long as the session, without anyone knowing of them.
func (s *Service) takeOver(ctx context.Context, saved Saved) (*pawl.Session, error) {
	h := saved.Handle
	if h == (lease.Handle{}) {
		return nil, errors.New("the predecessor left no session")
	}
	for _, from := range saved.Sessions {
		for _, r := range from.Rows {
			if _, whole := wantOf(r); r.State == registry.Held && !whole {
				return nil, errors.New("what the predecessor left is of another form")
			}
		}
	}
	within, cancel := context.WithTimeout(ctx, s.cfg.TTL()+s.cfg.LockDelay*6/5)
	defer cancel()
	for pause := backoff.Quick(); ; {
		own, err := s.client.NewSession(within, lease.Options{Resume: h, Owner: s.cfg.Owner})
		if err == nil {
			s.own.Enter(context.Background())
			s.session = own
			s.own.Leave()
			return own, nil
		}
		if errors.Is(err, lease.ErrTakenOver) || errors.Is(err, lease.ErrRevoked) || within.Err() != nil {
			return nil, fmt.Errorf("take over the predecessor's session: %w", err)
		}
		pause.Sleep(within)
	}
}

// wantOf is the Want for which a lock was acquired. It returns false if the row is incomplete.
func wantOf(r SavedRow) (w Want, whole bool) {
	err := json.Unmarshal([]byte(r.Params.Text), &w)
	return w, err == nil && len(w.Names) > 0 && len(w.Modes) == len(w.Names) && len(r.Keys) == len(w.Names)
}

// params are the row's parameters as this version encodes them, so that a repeat of the request
// finds them equal. The version that saved them may have encoded them differently.
func (r SavedRow) params() registry.Params {
	var w Want
	if json.Unmarshal([]byte(r.Params.Text), &w) != nil || len(w.Names) == 0 {
		return r.Params // of a tombstone
	}
	return w.params()
}

// takeOne takes one lock over, and at once promises what its client, whose session has ttl, may still
// believe, unless the client has released it. It tries until ctx ends, or until the lock is refused for
// good. A key that cannot be taken over is removed after until, when nobody believes in it; otherwise
// its name would be taken for as long as the session lasts. If ctx is canceled, the key is left to the
// next process.
func (s *Service) takeOne(ctx context.Context, own *pawl.Session, from SavedRow, to *registry.SavedRow, ttl time.Duration, until clock.Instant) {
	to.State, to.Why = registry.Lost, registry.ErrExpired
	if own == nil {
		return
	}
	w, _ := wantOf(from)
	discard := func() { hooks.SessionOf(own).Discard(time.Now().Add(until.Sub(clock.Now())), from.Keys...) }
	if from.Why != "" {
		to.Why = from.Why.cause()
		discard()
		return
	}
	for pause := backoff.Quick(); own.Err() == nil && ctx.Err() == nil; {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		h, err := w.resume(within, own, from.Keys, from.Token)
		cancel()
		switch {
		case err == nil && from.Releasing:
			to.State, to.Why, to.Holding = registry.Releasing, nil, h
			return
		case err == nil:
			if to.Why = h.Promise(clock.Now().Add(ttl)); to.Why == nil {
				to.State, to.Holding = registry.Held, h
			}
			return
		case from.Releasing && errors.Is(err, lock.ErrKeyDeleted): // as the predecessor wanted
			to.State, to.Why = registry.Released, nil
			return
		case errors.Is(err, lock.ErrLost), errors.Is(err, elect.ErrLost): // the engine removes what is left of it
			to.Why = err
			return
		case errors.Is(err, pawl.ErrTokenFloor):
			to.Why = err
			discard()
			return
		case errors.Is(err, queue.ErrOther): // its value was replaced: it was acquired as what is resumed
			to.Why = fmt.Errorf("%w: %w", lock.ErrKeyOverwritten, err)
			discard()
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) || to.Why == registry.ErrExpired { // the last try's deadline explains less
			to.Why = fmt.Errorf("%w: it could not be taken over: %w", registry.ErrExpired, err)
		}
		if isForGood(err) {
			break
		}
		s.cfg.Logger.Warn("a lock is not taken over yet", "name", w.Names, "cause", err)
		pause.Sleep(ctx)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		discard()
	}
}

// isForGood reports whether a takeover that failed with err would fail however often it is tried. That
// is so if etcd refuses the request for its content, or answers that the lock is not what was saved, but
// not if no answer comes, or if the cluster cannot answer now.
func isForGood(err error) bool {
	var failed *cluster.Error
	if errors.As(err, &failed) {
		return cluster.IsPermissionDenied(err) || cluster.IsTooManyOps(err) || cluster.IsTooLarge(err)
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// watchTaken waits for the end of a lock that was taken over, or continues to release it. s.mu is
// held.
func (s *Service) watchTaken(ref registry.Ref, r registry.SavedRow) {
	p := &part{ref: ref, cancel: func() {}, held: r.Holding.(*held), progress: clock.Now(), ahead: -1, again: r.State == registry.Releasing}
	_ = json.Unmarshal([]byte(r.Params.Text), &p.want)
	s.parts[ref] = p
	if p.again {
		s.release(ref)
		return
	}
	s.work.Add(1)
	go func() { // returns when the lock or life ends
		defer s.work.Done()
		s.watch(ref, p)
	}()
}
