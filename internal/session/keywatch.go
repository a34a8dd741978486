package session

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// A keyWatch is the watch of the session key. Its session guards it.
type keyWatch struct {
	watch *watcher.Watch // nil if there is no watch
	ended bool           // it has to be created again
}

// watchKey watches the session key, starting at revision from. A watch can prove a loss, but its
// silence proves nothing (rule H2), so validity does not depend on it.
func (s *Session) watchKey(from int64) {
	w := s.host.Watches.Watch(s.own.key, "", from, s.keyChanged)
	s.mu.Lock()
	ended := s.ended.Load() != nil
	if !ended {
		s.keyWatch.watch = w
	}
	s.mu.Unlock()
	if ended {
		w.Cancel()
	}
}

// keyChanged is called with every change of the session key.
func (s *Session) keyChanged(u watcher.Update) {
	for _, ev := range u.Events {
		switch {
		case ev.Deleted:
			s.Gone(fmt.Sprintf("session key %q was deleted at revision %d", s.own.key, ev.ModRevision))
		case ev.ModRevision > s.own.mod:
			s.displaced(ev.ModRevision)
		}
	}
	if u.Compacted > 0 || u.Err != nil {
		s.mu.Lock()
		s.keyWatch.ended = true
		s.mu.Unlock()
	}
}

// keepWatching creates the watch again if it has ended, after a confirmed renewal whose read
// showed the session key at revision rev.
func (s *Session) keepWatching(rev int64) {
	s.mu.Lock()
	again := s.keyWatch.ended
	s.keyWatch.ended = false
	s.mu.Unlock()
	if again {
		s.watchKey(rev + 1)
	}
}
