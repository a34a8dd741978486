package session

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// watchKey watches the session key from revision from on. A watch proves loss,
// never ownership (rule H2): nothing depends on its telling anything.
func (s *Session) watchKey(from int64) {
	w := s.host.Watches.Watch(s.key, "", from, s.keyChanged)
	s.mu.Lock()
	over := s.over.Load() != nil
	if !over {
		s.keyWatch = w
	}
	s.mu.Unlock()
	if over {
		w.Cancel()
	}
}

// keyChanged is called with every change of the session key.
func (s *Session) keyChanged(u watcher.Update) {
	for _, ev := range u.Events {
		switch {
		case ev.Deleted:
			s.Gone(fmt.Sprintf("session key %q was deleted at revision %d", s.key, ev.ModRevision))
		case ev.ModRevision > s.mod:
			s.displaced(ev.ModRevision)
		}
	}
	if u.Compacted > 0 || u.Err != nil {
		s.mu.Lock()
		s.watchEnd = true
		s.mu.Unlock()
	}
}

// keepWatching makes a watch that is over anew, after a confirmed renewal whose
// read showed the session key at revision rev.
func (s *Session) keepWatching(rev int64) {
	s.mu.Lock()
	again := s.watchEnd
	s.watchEnd = false
	s.mu.Unlock()
	if again {
		s.watchKey(rev + 1)
	}
}
