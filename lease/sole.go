package lease

import "github.com/pawl-locks/pawl/internal/keys"

// onLine is what a session has on one line.
type onLine struct {
	keys int   // attempts whose keys may be there
	last int64 // the number of the last attempt
}

// Sole reports whether attempt n on the line with this prefix is the only one of
// the session's that had, may have, or may yet have, a key there since n began.
// Others of its lease's keys under that prefix are gone for good then, for no
// name is used twice (rule A1). A session that was taken over does not know what
// its predecessor left, and never says so.
//
// Asked before n's enqueue is sent and after it was answered, it tells that
// nothing of this session's stood before n: an attempt that begins later is sent
// after that answer.
func (s *Session) Sole(n int64, prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inherited == 0 && s.lines[prefix] == onLine{1, n}
}

// leaveLine takes a key off its line. Caller holds mu.
func (s *Session) leaveLine(key string) {
	prefix, _ := keys.Split(key)
	l := s.lines[prefix]
	if l.keys--; l.keys > 0 {
		s.lines[prefix] = l
		return
	}
	delete(s.lines, prefix)
}
