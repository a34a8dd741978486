package session

import (
	"context"
	"fmt"
	"time"
	"weak"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
)

// removals are the background deletions of a session. Its session guards all but work.
type removals struct {
	fresh   []*Entry // entries for the next requests
	sending int      // requests under way for fresh
	failing breaker  // entries whose keys may exist
	full    breaker  // entries whose keys are deleted, and whose cancel keys wait for disk space
	refused []*Entry // entries with which a request was refused because of its content
	trying  int      // goroutines that try the refused ones
	single  gate.Gate
	work    Deferral // the goroutines that remove something; a takeover waits for them
}

func newRemovals() removals {
	return removals{
		failing: breaker{wait: backoff.Quick()},
		full:    breaker{wait: backoff.Backoff{First: minSpaceWait, Most: maxSpaceWait}},
		single:  gate.New(mostSingle),
	}
}

// A breaker holds the entries whose requests failed. While there are some, it sends one request at a
// time for them. Once one succeeds, the others follow at once. Each request is for half as many entries
// as the one before, except those that may take long, so that one entry that makes every request fail
// does not hold up the others.
type breaker struct {
	wait    backoff.Backoff // between its requests, from the first
	entries []*Entry
	open    bool // a goroutine sends them
}

// How many requests are under way at most, so that a slow cluster is not flooded: for entries that have
// not failed, which gather meanwhile, for refused ones, and for what is deleted singly.
const (
	mostSending = 4
	mostTrying  = 2
	mostSingle  = 8
)

// How long one try of a removal may take. Usually it is short, so that a silent member or a lost answer
// delays little. Every longTryEvery-th is as long as a slow cluster needs.
const (
	removalTry     = 400 * time.Millisecond
	removalLongTry = 4 * time.Second
	longTryEvery   = 4
)

// How long removals wait for disk space. What can be deleted without it does not wait.
const (
	minSpaceWait = 2 * time.Second // half of it is random
	maxSpaceWait = 30 * time.Second
)

// isLong reports whether the next try may take long, after so many tries.
func isLong(tries int) bool { return tries%longTryEvery == longTryEvery-1 }

// Leave has e removed in the background, whether its enqueue was applied, was not, or may be later (rules
// A5, A6). If it was held, its keys stay for as long as its Keep says, unless the session ends earlier. No
// work may rest on it any more. Leave does nothing for an entry that is gone.
func (s *Session) Leave(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeKept(e)
}

// removeKept has e removed once its Keep allows that; s.mu is held.
func (s *Session) removeKept(e *Entry) {
	at, _ := e.kept().May(s.validity.delay, true, false)
	wait := at.Sub(clock.Now())
	if wait <= 0 {
		s.remove(e)
		return
	}
	still, n := weak.Make(s), e.number // a session that has ended does not stay in memory for it
	time.AfterFunc(wait, func() {
		if s := still.Value(); s != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if e := s.book.entries[n]; e != nil {
				s.remove(e) // does nothing after the session's end
			}
		}
	})
}

// remove has entries removed, in requests that they share; s.mu is held.
func (s *Session) remove(es ...*Entry) {
	r := &s.removals
	for _, e := range es {
		r.fresh = append(r.fresh, e)
		if r.sending < mostSending && s.goRemove(s.sendFresh) {
			r.sending++
		}
	}
}

// MayHaveKeys reports whether keys of e may exist.
func (s *Session) MayHaveKeys(e *Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.has(e)
}

// RemoveInBackground calls try until it reports that nothing is left of what it deletes, or until the
// session has ended, because then its keys end with the lease. try returns when its context ends.
func (s *Session) RemoveInBackground(try func(ctx context.Context) (done bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goRemove(func(ctx context.Context) {
		wait := backoff.Quick()
		for tries := 0; s.removals.single.Enter(ctx); tries++ {
			bounded, cancel := tryFor(ctx, tries)
			done := try(bounded)
			cancel()
			s.removals.single.Leave()
			if done || !wait.Sleep(ctx) {
				return
			}
		}
	})
}

// tryFor bounds one try, after so many tries.
func tryFor(ctx context.Context, tries int) (context.Context, context.CancelFunc) {
	if isLong(tries) {
		return context.WithTimeout(ctx, removalLongTry)
	}
	return context.WithTimeout(ctx, removalTry)
}

// goRemove runs f in the background, with a context that ends with the session. It returns false
// if the session or the client has ended; s.mu is held.
func (s *Session) goRemove(f func(ctx context.Context)) bool {
	if s.ended.Load() != nil {
		return false
	}
	done := s.removals.work.Begin()
	begun := s.Go(fmt.Sprintf("keys of lease %x", s.id), func(ctx context.Context) {
		defer done()
		f(ctx)
	})
	if !begun {
		done()
	}
	return begun
}

// sendFresh removes entries until none is left that has not failed.
func (s *Session) sendFresh(ctx context.Context) {
	for {
		s.mu.Lock()
		batch := s.batch(&s.removals.fresh, maxOps)
		if len(batch) == 0 || ctx.Err() != nil {
			s.removals.sending--
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		err := s.tryEntries(ctx, 0, batch)
		s.mu.Lock()
		s.sent(batch, err)
		s.mu.Unlock()
	}
}

// batch takes as many of entries as fit into one request, most at most, without those that are
// gone. Once the session has ended, it takes none; s.mu is held.
func (s *Session) batch(entries *[]*Entry, most int) (batch []*Entry) {
	if s.ended.Load() != nil {
		return nil
	}
	for ops := 0; len(*entries) > 0 && len(batch) < most; *entries = (*entries)[1:] {
		e := (*entries)[0]
		need := s.removalOps(e)
		if need == 0 {
			continue
		}
		if ops += need; ops > s.maxOps && len(batch) > 0 {
			break
		}
		batch = append(batch, e)
	}
	return batch
}

// tryEntries tries once, after so many tries, to remove batch.
func (s *Session) tryEntries(ctx context.Context, tries int, batch []*Entry) error {
	ctx, cancel := tryFor(ctx, tries)
	defer cancel()
	return s.removeEntries(ctx, batch)
}

// sent decides how batch continues after a try that returned err. If err is nil, the batch is removed.
// A batch that was refused because of its content is tried again at once. It is split into smaller ones
// if it was too large. Otherwise each entry is tried separately, because its failure says nothing about
// others. s.mu is held.
func (s *Session) sent(batch []*Entry, err error) {
	switch {
	case err == nil:
	case cluster.IsTooManyOps(err) && len(batch) > 1:
		s.remove(batch...)
	case isRefused(err):
		r := &s.removals
		r.refused = append(r.refused, batch...)
		for r.trying < min(mostTrying, len(r.refused)) && s.goRemove(s.sendRefused) {
			r.trying++
		}
	case cluster.IsNoSpace(err):
		s.fail(&s.removals.full, batch)
	default:
		s.fail(&s.removals.failing, batch)
	}
}

// isRefused reports whether a request was refused because of its content.
func isRefused(err error) bool {
	return cluster.IsTooManyOps(err) || cluster.IsPermissionDenied(err) || cluster.IsTooLarge(err)
}

// sendRefused removes refused entries one by one until none is left. Once as many tries in a row have
// failed as there are entries, it waits before each try, so that what is refused for good costs little.
func (s *Session) sendRefused(ctx context.Context) {
	r := &s.removals
	wait := backoff.Quick()
	for failed := 0; ; {
		s.mu.Lock()
		one := s.batch(&r.refused, 1)
		if len(one) == 0 || ctx.Err() != nil {
			r.trying--
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		err := s.tryEntries(ctx, failed, one)
		s.mu.Lock()
		if err == nil || cluster.IsNoSpace(err) {
			s.sent(one, err)
			failed, wait = 0, backoff.Quick()
		} else {
			r.refused = append(r.refused, one...)
			failed++
		}
		pause := failed > 0 && failed >= len(r.refused)
		s.mu.Unlock()
		if pause {
			wait.Sleep(ctx)
		}
	}
}

// fail adds batch, which failed, to what waits with b; s.mu is held.
func (s *Session) fail(b *breaker, batch []*Entry) {
	b.entries = append(b.entries, batch...)
	if !b.open {
		b.open = s.goRemove(func(ctx context.Context) { s.mend(ctx, b, len(batch)) })
	}
}

// mend tries to remove the entries of b until none is left or a request succeeds. The first request,
// for size of them, has failed.
func (s *Session) mend(ctx context.Context, b *breaker, size int) {
	wait := b.wait // a copy, so that the waits begin again each time
	for tries := 1; wait.Sleep(ctx); tries++ {
		size = max(size/2, 1)
		most := size
		if isLong(tries) {
			most = maxOps
		}
		s.mu.Lock()
		batch := s.batch(&b.entries, most)
		s.mu.Unlock()
		if s.mended(b, batch, s.tryEntries(ctx, tries, batch)) {
			return
		}
	}
}

// mended decides how batch continues after a try for b, and reports whether b is done. It is if nothing
// waits with b any more, or if the server executes requests again, so that the others may follow.
func (s *Session) mended(b *breaker, batch []*Entry, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent(batch, err)
	done := err == nil || isRefused(err) || b == &s.removals.failing && cluster.IsNoSpace(err) // the keys are deleted
	if !done && len(b.entries) > 0 {
		return false
	}
	s.remove(b.entries...)
	b.open, b.entries = false, nil
	return true
}
