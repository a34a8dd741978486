package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Saved is what a successor has to know. Without a Handle it knows of the locks but can take over
// none, and their keys end with the lease.
type Saved struct {
	Handle   lease.Handle
	Sessions []SavedSession
}

// A SavedSession is one client's session.
type SavedSession struct {
	ID, Identity string
	TTL          time.Duration
	Provisional  bool `json:",omitempty"` // no Acquire has set TTL yet
	Ended        bool `json:",omitempty"`
	Rows         []SavedRow
}

// A SavedRow is a lock, or a remembered one that has ended.
type SavedRow struct {
	Request   string
	Params    registry.Params
	State     registry.State
	Why       Why           `json:",omitempty"` // if it has ended; if it was lost while pawld handed over, State is still Held
	Left      time.Duration `json:",omitempty"` // of Params.MaxHold
	Keys      []string      `json:",omitempty"`
	Token     fencing.Token `json:",omitempty"`
	Releasing bool          `json:",omitempty"` // its release has begun, and is not decided; State is still Held
}

// keep notes that a client may believe until then that it holds a key that is being removed. s.mu
// is held.
func (s *Service) keep(until clock.Instant) {
	if s.removing.Before(until) {
		s.removing = until
	}
}

// believed is until when a client may believe that it holds something which a successor would
// delete, or would not know of, such as a key that is being removed, or what is left of a set.
func (s *Service) believed() clock.Instant {
	s.mu.Lock()
	defer s.unlock()
	until := s.removing
	for _, r := range s.rests {
		if until.Before(r.until) {
			until = r.until
		}
	}
	return until
}

// AwaitValidity waits until Detach need not wait for any validity, at most for the longest TTL, or
// until the present validities have ended. It is called before Drain, so that clients are served
// meanwhile.
func (s *Service) AwaitValidity(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.Registry.MaxTTL, s.believed().Sub(clock.Now())))
	defer cancel()
	for until := s.believed(); clock.Now().Before(until) && ctx.Err() == nil; until = s.believed() {
		session.AwaitInstant(ctx, until)
	}
}

// AwaitReleases continues to serve until clients hold nothing, and what they release is confirmed, or ctx ends.
func (s *Service) AwaitReleases(ctx context.Context) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for s.holding() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// holding reports whether anything is held for a client, or its release is not confirmed.
func (s *Service) holding() bool {
	s.mu.Lock()
	defer s.unlock()
	for _, p := range s.parts {
		if p.held != nil {
			return true
		}
	}
	return false
}

// RenewalsWait is how long AwaitRenewals waits for a client, which is more than a round trip.
const RenewalsWait = time.Second

// AwaitRenewals makes each client whose Renew is parked renew once more, so that its validity counts from
// now, and not from when that Renew came. So the validity outlives a longer restart. It is called before
// Drain.
func (s *Service) AwaitRenewals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, RenewalsWait)
	defer cancel()
	s.mu.Lock()
	s.leaving, s.awaited = clock.Now(), make(map[string]bool)
	for _, session := range s.registry.Parking() {
		s.awaited[session] = true
		s.wake(session)
	}
	none := len(s.awaited) == 0
	s.unlock()
	if none {
		return
	}
	select {
	case <-s.renewed:
	case <-ctx.Done():
	}
}

// comes notes a Renew that is answered. s.mu is held.
func (s *Service) comes(r Request) {
	if s.awaited[r.Session] && !r.Arrival.Before(s.leaving) {
		if delete(s.awaited, r.Session); len(s.awaited) == 0 {
			close(s.renewed)
		}
	}
}

// spaceProbe is the pause between two probes whether etcd has space again.
const spaceProbe = 500 * time.Millisecond

// Drain answers parked calls, refuses new ones, and gives up the positions. Locks that are held
// stay held, and no further promise is made for them.
func (s *Service) Drain() {
	s.drained.Do(func() {
		s.mu.Lock()
		s.drain()
		s.unbind(func(string) bool { return true }) // no successor knows of them
		releases := []*part{}
		for _, p := range s.parts {
			switch {
			case p.held == nil:
				p.cancel()
			case p.released != nil:
				releases = append(releases, p)
			}
		}
		s.unlock()
		s.waits.Wait() // prompt, because Acquire returns when its context ends
		s.returns.Wait()
		s.running.Wait()
		late := time.After(3 * time.Second)
		for _, p := range releases {
			select {
			case <-p.released:
			case <-s.hurried.Done():
				return
			case <-late: // the successor completes it
				return
			}
		}
	})
}

// ErrHurried reports that there was no time to leave anything to a successor.
var ErrHurried = errors.New("pawld ended while a client could still count on a lost lock: no successor takes anything over, and all locks stay blocked until pawld's session at etcd has expired")

// Detach leaves everything to a successor once no request is under way. It writes the rows, ends
// the session in this process, and then writes the session's Handle. After an error there may be
// nothing to take over; then the lease expires.
//
// It waits for the validity of what was lost before Drain, which the Handle lists for removal. What
// is lost later is still held as far as its client knows. So it is saved as held, and the Handle
// does not list it, and the successor keeps the keys for as long as the client may believe.
func (s *Service) Detach(write func(Saved) error) error {
	s.Drain()
	if !session.AwaitInstant(s.hurried, s.believed()) {
		return ErrHurried // a successor would delete what a client believes in; everything ends with the lease
	}
	s.mu.Lock()
	rests := slices.Collect(maps.Values(s.rests)) // watch adds no more, so each is due
	s.unlock()
	for _, r := range rests {
		s.back(r.held)
	}
	s.mu.Lock()
	saved := Saved{Sessions: s.save(clock.Now())}
	s.unlock()
	if err := write(saved); err != nil {
		return err
	}
	own := s.current()
	if own != nil {
		saved.Handle = hooks.SessionOf(own).DetachKeeping(func() map[string]bool { return s.keptFor(saved.Sessions) })
	}
	s.stop()
	return write(saved)
}

// Close ends without a successor. It makes no further promise, waits until all promises have
// passed, and revokes the lease.
func (s *Service) Close(ctx context.Context) error {
	s.Drain()
	own := s.current()
	defer s.stop()
	if own == nil {
		return nil
	}
	var err error
	pause := backoff.Quick()
	for ctx.Err() == nil { // each call is bounded, and returns at once if it is decided
		if err = own.Close(ctx); err == nil {
			return nil
		}
		pause.Sleep(ctx)
	}
	return err
}

// current is pawld's session, once none is being made, or nil if there is none.
func (s *Service) current() *pawl.Session {
	s.own.Enter(context.Background())
	defer s.own.Leave()
	return s.session
}

func (s *Service) stop() {
	s.end()
	s.work.Wait()
}

// save is what the registry saves, for the successor. s.mu is held.
func (s *Service) save(now clock.Instant) (out []SavedSession) {
	for _, from := range s.registry.Save(now) {
		to := SavedSession{ID: from.ID, Identity: from.Identity, TTL: from.TTL, Provisional: from.Provisional, Ended: from.Ended}
		for _, r := range from.Rows {
			row := SavedRow{Request: r.Request, Params: r.Params, State: r.State, Why: WhyOf(r.Why), Left: r.Left}
			p := s.parts[registry.Ref{Session: from.ID, Request: r.Request}]
			if row.Releasing = r.State == registry.Releasing; row.Releasing && p == nil {
				continue // there is no key any more
			}
			if row.Releasing || p.isHeld() { // even if an answer has found its loss before watch did
				row.State, row.Why, row.Keys, row.Token = registry.Held, "", p.held.keys, p.held.Token()
			}
			to.Rows = append(to.Rows, row)
		}
		out = append(out, to)
	}
	return out
}

// keptFor returns the keys of what was saved as held, and notes in saved which of them somebody has
// overwritten, because not every key shows that. It is called after the session's end.
func (s *Service) keptFor(saved []SavedSession) map[string]bool {
	s.mu.Lock()
	defer s.unlock()
	kept := make(map[string]bool, len(s.parts))
	for _, from := range saved {
		for i := range from.Rows {
			r := &from.Rows[i]
			if r.State != registry.Held {
				continue
			}
			for _, key := range r.Keys {
				kept[key] = true
			}
			if p := s.parts[registry.Ref{Session: from.ID, Request: r.Request}]; p.isHeld() && errors.Is(p.held.Err(), lock.ErrKeyOverwritten) {
				r.Why = WhyOf(lock.ErrKeyOverwritten)
			}
		}
	}
	return kept
}

// resumers bounds how many locks are taken over at a time.
const resumers = 32
