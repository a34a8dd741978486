package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// A part is the engine's side of one row of the registry.
type part struct {
	ref    registry.Ref
	want   Want
	cancel context.CancelFunc // cancels the wait

	// Guarded by the service's mutex.
	queued   bool // its key is in the queue
	ahead    int  // how many were ahead of it when it was enqueued
	err      error
	refused  bool // err is final, and the row was deleted
	held     *held
	released chan struct{} // closed when the release is decided; nil if no release has begun
	lost     error         // the result of the release, read after released: nil if it was held until then
	asked    bool          // its client has asked whether it is wanted
	wanted   bool          // somebody waits behind it
	notified bool          // an answer said so
	progress clock.Instant // the last, for a metric
	again    bool          // the predecessor began its release, so a key that is gone was released
}

// isHeld reports whether it is held for its client, or was lost without the registry knowing. s.mu is
// held.
func (p *part) isHeld() bool { return p != nil && p.held != nil && p.released == nil }

// partKey is the key of a part in a context, where Observe finds it.
type partKey struct{}

// Observe implements observe.Observer. It notes that a part's key is in the queue.
func (s *Service) Observe(ctx context.Context, ev observe.Event) {
	p, _ := ctx.Value(partKey{}).(*part)
	if p == nil {
		return
	}
	ahead := -1
	switch ev := ev.(type) {
	case observe.LockEnqueued:
		ahead = ev.Ahead
	case observe.CampaignEnqueued:
		ahead = ev.Ahead
	default:
		return
	}
	s.mu.Lock()
	p.queued, p.ahead, p.err = true, ahead, nil
	s.wake(p.ref.Session)
	s.unlock()
}

// wait acquires for a row until the lock is held, refused or no longer wanted, and, once it is
// held, waits for its end.
func (s *Service) wait(ctx context.Context, ref registry.Ref, p *part) {
	defer s.work.Done()
	defer p.cancel()
	if s.wins(ctx, ref, p) {
		s.watch(ref, p)
	}
}

func (s *Service) wins(ctx context.Context, ref registry.Ref, p *part) bool {
	defer s.waits.Done()
	h := s.queue(ctx, ref, p)
	return h != nil && s.won(ref, p, h)
}

// queue acquires until the lock is held. It returns nil if the lock was refused, or is no longer
// wanted.
func (s *Service) queue(ctx context.Context, ref registry.Ref, p *part) *held {
	for pause := backoff.Quick(); ; {
		own, err := s.Session(ctx)
		if err == nil {
			var h *held
			if h, err = p.want.acquire(context.WithValue(ctx, partKey{}, p), own); err == nil {
				return h
			}
			err = deletedAlone(ctx, own, err)
		}
		if ctx.Err() != nil || s.failed(ref, p, err) || !pause.Sleep(ctx) {
			return nil
		}
	}
}

// deletedAlone changes an error that an acquisition on own returned because its key was deleted. If
// own is not shown alive, the result does not say that only the key is gone, because the key may have
// gone with its lease. It returns all other errors as they are.
func deletedAlone(ctx context.Context, own *pawl.Session, err error) error {
	if !errors.Is(err, lock.ErrKeyDeleted) {
		return err
	}
	if gone := hooks.SessionOf(own).Examine(ctx); gone != nil {
		return fmt.Errorf("%v; %v", err, gone) // matches neither
	}
	return err
}

// failed records why an acquisition failed. It returns true if it is not tried again.
func (s *Service) failed(ref registry.Ref, p *part, err error) bool {
	s.mu.Lock()
	defer s.unlock()
	if s.parts[ref] != p { // nobody wants it any more, and the row may be another acquisition's
		return true
	}
	defer s.wake(ref.Session)
	p.queued, p.err = false, err
	switch final(err) {
	case refusal:
		p.refused = true
		s.registry.Forget(ref)
	case loss:
		s.registry.Lose(ref, err, clock.Now())
	default:
		return false
	}
	delete(s.parts, ref)
	return true
}

// won gives the registry a lock that is held. It returns false if no client wants the lock any more.
func (s *Service) won(ref registry.Ref, p *part, h *held) bool {
	s.mu.Lock()
	// A client that settles what it released may use the request again, and the row is then not
	// p's.
	ok := !s.stopping() && s.parts[ref] == p && s.registry.Won(ref, h, clock.Now())
	if ok {
		p.held, p.progress = h, clock.Now()
		s.wake(ref.Session)
	}
	back := func() {}
	if !ok {
		back = s.giveBack(h)
	}
	s.unlock()
	back()
	s.reschedule()
	return ok
}

// asks makes the service note for a session's locks whether somebody waits behind them, once its
// client asks for it. It reports whether somebody waits and no answer has said so yet.
// s.mu is held.
func (s *Service) asks(all []registry.Listed) (news bool) {
	for _, l := range all {
		p := s.parts[l.Ref]
		if !p.isHeld() || p.held.ask == nil {
			continue
		}
		if !p.asked {
			p.asked = true
			close(p.held.ask)
		}
		news = news || p.wanted && !p.notified
	}
	return news
}

// watch waits for the end of a held lock, and until then for somebody who waits behind it.
func (s *Service) watch(ref registry.Ref, p *part) {
	ask, wanted := p.held.ask, (<-chan struct{})(nil)
	for ended := false; !ended; {
		select {
		case <-p.held.Done():
			ended = true
		case <-ask:
			ask = nil
			if h, ok := p.held.handle.(*lock.Held); ok {
				wanted = h.Wanted()
			}
		case <-wanted:
			wanted = nil
			s.mu.Lock()
			p.wanted = true
			if s.parts[ref] == p {
				s.wake(ref.Session)
			}
			s.unlock()
		case <-s.life.Done():
			return
		}
	}
	s.mu.Lock()
	if p.released == nil && !s.stopping() { // otherwise the release reports it, or the successor finds it
		now := clock.Now()
		if s.parts[ref] == p { // otherwise the registry has ended it, and the row may be another acquisition's
			s.registry.Lose(ref, p.held.Err(), now)
			if errors.Is(p.held.Err(), lock.ErrStalled) {
				s.stalled++
			}
			delete(s.parts, ref)
			s.wake(ref.Session)
		}
		if errors.Is(p.held.Err(), lock.ErrKeyOverwritten) { // a successor of this pawld deletes the key at once
			s.keep(now.Add(max(s.cfg.Registry.MaxTTL, s.registry.TTL(ref.Session)))) // a restored session's TTL may be longer
		}
		if p.held.leavesRest() {
			s.keepRest(ref, p.held)
		}
	}
	s.unlock()
}
