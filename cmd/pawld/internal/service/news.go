package service

// wake wakes the parked requests of a session. s.mu is held.
func (s *Service) wake(session string) {
	if n := s.news[session]; n != nil {
		close(n.changed)
		delete(s.news, session)
	}
}

// news is what the parked requests of a session wait for.
type news struct {
	changed chan struct{} // closed when something of the session has changed
	parked  int           // how many wait for it
}

// listen returns what a request of the session that is to be parked waits for. s.mu is held.
func (s *Service) listen(session string) *news {
	n := s.news[session]
	if n == nil {
		n = &news{changed: make(chan struct{})}
		s.news[session] = n
	}
	n.parked++
	return n
}

// unpark ends what listen began, and keeps nothing for a session without a parked request. s.mu is
// held.
func (s *Service) unpark(session string, n *news) {
	if n.parked--; n.parked == 0 && s.news[session] == n {
		delete(s.news, session)
	}
}
