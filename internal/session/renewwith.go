package session

import "slices"

// RenewWith has s renew when leader does, so that after the end of the process their leases expire
// together, within a thirty-second of the TTL. Otherwise they would expire up to a quarter of the TTL
// apart. The two have one TTL. Each renewal stays the session's own, and leader's end changes nothing.
func (s *Session) RenewWith(leader *Session) {
	leader.mu.Lock()
	defer leader.mu.Unlock()
	leader.followers = append(leader.followers, s)
}

// leadRenewals has the followers renew, unless they have just begun to.
func (s *Session) leadRenewals() {
	s.mu.Lock()
	s.followers = slices.DeleteFunc(s.followers, func(f *Session) bool { return f.ended.Load() != nil })
	all := slices.Clone(s.followers)
	s.mu.Unlock()
	for _, f := range all {
		f.waking.led.Store(true)
		f.wake()
	}
}
