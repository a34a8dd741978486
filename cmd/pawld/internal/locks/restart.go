package locks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Saved is what a successor has to know. Without a Handle it knows of the locks but can take
// over none: their keys end with the lease.
type Saved struct {
	Handle   lease.Handle
	Sessions []SavedSession
}

// A SavedSession is one client's session.
type SavedSession struct {
	ID, Identity string
	TTL          time.Duration
	Ended        bool `json:",omitempty"`
	Rows         []SavedRow
}

// A SavedRow is a lock, or a remembered one that has ended.
type SavedRow struct {
	Request   string
	Params    table.Params
	State     table.State
	Why       Why           `json:",omitempty"` // if it has ended; if it was lost while pawld handed over, State is still Held
	Left      time.Duration `json:",omitempty"` // of Params.MaxHold
	Keys      []string      `json:",omitempty"`
	Token     fencing.Token `json:",omitempty"`
	Releasing bool          `json:",omitempty"` // its release has begun, and is not decided; State is still Held
}

// keep notes that a client may believe until then in a key that is being removed; s.mu is held.
func (s *Service) keep(until clock.Instant) {
	if s.removing.Before(until) {
		s.removing = until
	}
}

// believed is until when a client may believe that it holds something which a successor would
// delete, or would not know of: a key that is being removed, or what is left of a set.
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

// AwaitBeliefs waits until Detach need not wait for any belief, at most for the longest TTL, or
// until the beliefs of now have ended. It is called before Drain, so that clients are served
// meanwhile.
func (s *Service) AwaitBeliefs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.Table.MaxTTL, s.believed().Sub(clock.Now())))
	defer cancel()
	for until := s.believed(); clock.Now().Before(until) && ctx.Err() == nil; until = s.believed() {
		session.AwaitInstant(ctx, until)
	}
}

// spaceProbe is the pause between two looks at whether etcd has space again.
const spaceProbe = 500 * time.Millisecond

// AwaitSpace waits while etcd is out of space (NOSPACE), because then a successor could take
// nothing over; full is called once if it has to wait. It is called before Drain, so that clients
// are served meanwhile. false: ctx ended, and etcd is still out of space. Other errors of etcd's are
// no reason to wait: a successor tries again for as long as the lease lasts.
func (s *Service) AwaitSpace(ctx context.Context, full func()) bool {
	waited := false
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, time.Second)
		err := s.rehearse(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			continue
		case !cluster.IsNoSpace(err):
			return true
		case !waited:
			waited = true
			full()
		}
		t := time.NewTimer(spaceProbe)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return !waited
}

// rehearse returns why no successor could take the session over now; nil: one could, or there is
// none.
func (s *Service) rehearse(ctx context.Context) error {
	select {
	case <-s.own:
	case <-ctx.Done():
		return nil // one is being made, and nothing is held on it
	}
	own := s.session
	s.own <- struct{}{}
	if own == nil || own.Err() != nil {
		return nil
	}
	return inside.SessionOf(own).Rehearse(ctx)
}

// Drain answers parked calls, refuses new ones, and gives up the places. Locks that are held
// stay held, and no further promise is made for them.
func (s *Service) Drain() {
	s.drained.Do(func() {
		s.mu.Lock()
		close(s.draining)
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
		s.looking.Wait()
		late := time.After(3 * time.Second)
		for _, p := range releases {
			select {
			case <-p.released:
			case <-late: // the successor completes it
				return
			}
		}
	})
}

// Detach leaves everything to a successor once no request is under way: it writes the rows,
// ends the session in this process, and then writes the session's Handle. After an error there
// may be nothing to take over; then the lease expires.
//
// It waits for the beliefs in what was lost before Drain, which the Handle lists for removal. What
// is lost later is still held as far as its client knows. It is saved as held, and the Handle
// does not list it, so that the successor keeps the keys for as long as the client may believe.
func (s *Service) Detach(write func(Saved) error) error {
	s.Drain()
	session.AwaitInstant(s.life, s.believed())
	s.mu.Lock()
	rests := slices.Collect(maps.Values(s.rests)) // watch adds none any more, so that each is due
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
	<-s.own
	own := s.session
	s.own <- struct{}{}
	if own != nil {
		saved.Handle = inside.SessionOf(own).DetachKeeping(func() map[string]bool { return s.keptFor(saved.Sessions) })
	}
	s.stop()
	return write(saved)
}

// Close ends without a successor: it makes no further promise, waits until all promises have
// passed, and has the lease revoked.
func (s *Service) Close(ctx context.Context) error {
	s.Drain()
	<-s.own
	own := s.session
	s.own <- struct{}{}
	defer s.stop()
	if own == nil {
		return nil
	}
	var err error
	for ctx.Err() == nil { // each call is bounded, and returns at once if it is decided
		if err = own.Close(ctx); err == nil {
			return nil
		}
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return err
}

func (s *Service) stop() {
	s.end()
	s.work.Wait()
}

// save is what the table saves, for the successor. s.mu is held.
func (s *Service) save(now clock.Instant) (out []SavedSession) {
	for _, from := range s.table.Save(now) {
		to := SavedSession{ID: from.ID, Identity: from.Identity, TTL: from.TTL, Ended: from.Ended}
		for _, r := range from.Rows {
			row := SavedRow{Request: r.Request, Params: r.Params, State: r.State, Why: WhyOf(r.Why), Left: r.Left}
			p := s.parts[table.Ref{Session: from.ID, Request: r.Request}]
			if row.Releasing = r.State == table.Releasing; row.Releasing && p == nil {
				continue // there is no key any more
			}
			if row.Releasing || p.isHeld() { // even if an answer has found its loss before watch did
				row.State, row.Why, row.Keys, row.Token = table.Held, "", p.held.keys, p.held.Token()
			}
			to.Rows = append(to.Rows, row)
		}
		out = append(out, to)
	}
	return out
}

// keptFor returns the keys of what was saved as held, and notes in saved which of them somebody has
// overwritten: that is not seen in every key. It is called after the session's end.
func (s *Service) keptFor(saved []SavedSession) map[string]bool {
	s.mu.Lock()
	defer s.unlock()
	kept := make(map[string]bool, len(s.parts))
	for _, from := range saved {
		for i := range from.Rows {
			r := &from.Rows[i]
			if r.State != table.Held {
				continue
			}
			for _, key := range r.Keys {
				kept[key] = true
			}
			if p := s.parts[table.Ref{Session: from.ID, Request: r.Request}]; p.isHeld() && errors.Is(p.held.Err(), lock.ErrKeyOverwritten) {
				r.Why = WhyOf(lock.ErrKeyOverwritten)
			}
		}
	}
	return kept
}

// resumers bounds how many locks are taken over at a time.
const resumers = 32

// Resume takes over what a predecessor saved: first its session at etcd, which is then renewed,
// and then each lock. What cannot be taken over is lost, and its client learns that. It is
// called before any other method. An error says why nothing was taken over.
func (s *Service) Resume(ctx context.Context, saved Saved) (taken int, err error) {
	host, err := inside.HostOf(s.client)
	if err != nil {
		return 0, err
	}
	longest := s.cfg.Table.MaxTTL // no client believes in a lock for longer
	for _, from := range saved.Sessions {
		longest = max(longest, from.TTL) // the predecessor's bound may have been another
	}
	until := clock.Now().Add(longest) // no client believes for longer in what the predecessor held
	whole := false                    // all of it that still has a key is promised here
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
	turns := make(chan struct{}, resumers)
	restored := make([]table.Saved, len(saved.Sessions))
	for i, from := range saved.Sessions {
		to := table.Saved{ID: from.ID, Identity: from.Identity, TTL: from.TTL, Ended: from.Ended, Rows: make([]table.SavedRow, len(from.Rows))}
		for j, r := range from.Rows {
			to.Rows[j] = table.SavedRow{Request: r.Request, Params: r.params(), State: r.State, Why: r.Why.cause(), Left: r.Left}
			if r.State != table.Held {
				continue
			}
			wg.Add(1)
			go func() { // returns when within or the session ends; waited for below
				defer wg.Done()
				turns <- struct{}{}
				defer func() { <-turns }()
				s.takeOne(within, own, r, &to.Rows[j], from.TTL, until)
			}()
		}
		restored[i] = to
	}
	wg.Wait()
	s.mu.Lock()
	defer s.unlock()
	s.table.Restore(restored, clock.Now())
	whole = true
	for i, from := range restored {
		for j, r := range from.Rows {
			was := saved.Sessions[i].Rows[j]
			if was.State == table.Held && r.State == table.Lost {
				s.cfg.Logger.Warn("a lock is lost: it is not taken over", "name", namesOf(r.Params.Text), "cause", r.Why)
			}
			switch {
			case r.Holding != nil:
				taken++
				s.watchTaken(table.Ref{Session: from.ID, Request: r.Request}, r)
			case was.State == table.Held && r.State == table.Lost && (len(was.Keys) > 1 || !errors.Is(r.Why, lock.ErrKeyDeleted)):
				whole = false
				s.keep(until)
			}
		}
	}
	return taken, err
}

// takeOver makes pawld's session from a Handle. It tries for as long as the lease may last. If
// a lock is incomplete, nothing is taken over: its keys would stay in their queues for as long
// as the session, without anyone knowing of them.
func (s *Service) takeOver(ctx context.Context, saved Saved) (*pawl.Session, error) {
	h := saved.Handle
	if h == (lease.Handle{}) {
		return nil, errors.New("the predecessor left no session")
	}
	for _, from := range saved.Sessions {
		for _, r := range from.Rows {
			if _, whole := wantOf(r); r.State == table.Held && !whole {
				return nil, errors.New("what the predecessor left is of another form")
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.TTL())
	defer cancel()
	for {
		own, err := s.client.NewSession(ctx, lease.Options{Resume: h, Owner: s.cfg.Owner})
		if err == nil {
			<-s.own
			s.session = own
			s.own <- struct{}{}
			return own, nil
		}
		if errors.Is(err, lease.ErrTakenOver) || errors.Is(err, lease.ErrRevoked) || ctx.Err() != nil {
			return nil, fmt.Errorf("take over the predecessor's session: %w", err)
		}
		t := time.NewTimer(200 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// wantOf is the Want for which a lock was acquired; false: the row is incomplete.
func wantOf(r SavedRow) (w Want, whole bool) {
	err := json.Unmarshal([]byte(r.Params.Text), &w)
	return w, err == nil && len(w.Names) > 0 && len(w.Modes) == len(w.Names) && len(r.Keys) == len(w.Names)
}

// params are the row's parameters as this version encodes them, which may not be how the version
// that saved them did: a repeat of the request has to find them equal.
func (r SavedRow) params() table.Params {
	var w Want
	if json.Unmarshal([]byte(r.Params.Text), &w) != nil || len(w.Names) == 0 {
		return r.Params // of a tombstone
	}
	return w.params()
}

// takeOne takes one lock over, and at once promises what its client, whose session has ttl, may
// still believe, unless that has released it. It tries until ctx ends, or until the lock is refused for good. A key that cannot be taken over is removed after until,
// when nobody believes in it: otherwise its name would be taken for as long as the session lasts.
func (s *Service) takeOne(ctx context.Context, own *pawl.Session, from SavedRow, to *table.SavedRow, ttl time.Duration, until clock.Instant) {
	to.State, to.Why = table.Lost, table.ErrExpired
	if own == nil {
		return
	}
	w, _ := wantOf(from)
	discard := func() { inside.SessionOf(own).Discard(time.Now().Add(until.Sub(clock.Now())), from.Keys...) }
	if from.Why != "" {
		to.Why = from.Why.cause()
		discard()
		return
	}
	for own.Err() == nil && ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		h, err := w.resume(within, own, from.Keys, from.Token)
		cancel()
		switch {
		case err == nil && from.Releasing:
			to.State, to.Why, to.Holding = table.Releasing, nil, h
			return
		case err == nil:
			if to.Why = h.Promise(clock.Now().Add(ttl)); to.Why == nil {
				to.State, to.Holding = table.Held, h
			}
			return
		case from.Releasing && errors.Is(err, lock.ErrKeyDeleted): // as the predecessor wanted
			to.State, to.Why = table.Released, nil
			return
		case errors.Is(err, lock.ErrLost), errors.Is(err, elect.ErrLost): // the engine removes what is left of it
			to.Why = err
			return
		case errors.Is(err, pawl.ErrTokenFloor):
			to.Why = err
			discard()
			return
		case errors.Is(err, lock.ErrKind): // it was acquired as what is resumed, so that somebody has put another value
			to.Why = fmt.Errorf("%w: %w", lock.ErrKeyOverwritten, err)
			discard()
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) || to.Why == table.ErrExpired { // the last try's end explains less
			to.Why = fmt.Errorf("%w: it could not be taken over: %w", table.ErrExpired, err)
		}
		if isForGood(err) {
			break
		}
		s.cfg.Logger.Warn("a lock is not taken over yet", "name", w.Names, "cause", err)
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	discard()
}

// isForGood reports whether err of a takeover says that it fails however often it is tried: etcd
// refuses the request for what it asks, or answers that the lock is not what was saved. An answer that does
// not come, or says that the cluster cannot answer now, is no such refusal.
func isForGood(err error) bool {
	var failed *cluster.Error
	if errors.As(err, &failed) {
		return cluster.IsPermissionDenied(err) || cluster.IsTooManyOps(err) || cluster.IsTooLarge(err)
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// watchTaken waits for the end of a lock that was taken over, or goes on releasing it; s.mu is held.
func (s *Service) watchTaken(ref table.Ref, r table.SavedRow) {
	p := &part{ref: ref, cancel: func() {}, held: r.Holding.(*held), ahead: -1, again: r.State == table.Releasing}
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
