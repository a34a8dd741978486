package service

import (
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
)

// A rest is what is left of a set that lost a name.
type rest struct {
	*held
	until clock.Instant // when it is released
}

// keepRest keeps the other names of a set that lost one until its client releases it, or has had
// its TTL to stop its work. If another name were handed on earlier, that name would have two
// holders. No client believes that it holds them for longer. s.mu is held.
func (s *Service) keepRest(ref registry.Ref, h *held) {
	ttl := s.registry.TTL(ref.Session)
	s.rests[ref] = rest{h, clock.Now().Add(ttl)}
	time.AfterFunc(ttl, func() {
		s.mu.Lock()
		if s.rests[ref].held == h { // not a later one's
			s.freeRest(ref)
		}
		s.unlock()
	})
}

// freeRest releases, in the background, what is left of a set. s.mu is held. Once pawld stops,
// Detach does that.
func (s *Service) freeRest(ref registry.Ref) {
	if r, ok := s.rests[ref]; ok && !s.stopping() {
		delete(s.rests, ref)
		s.giveBack(r.held)()
	}
}
