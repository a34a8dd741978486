package etcdfake

// Leave has the member leave the cluster: it stops, and MemberList does not show it.
func (m *Member) Leave() {
	m.c.mu.Lock()
	m.left = true
	m.c.mu.Unlock()
	m.Stop()
}

// Join makes a member that has left one that is new, at its endpoint.
func (m *Member) Join() {
	m.c.mu.Lock()
	m.left = false
	m.c.mu.Unlock()
	m.ForgetTokens()
	m.Heal()
}

// ForgetTokens makes every token issued so far unknown to this member, as its restart from a snapshot
// does, unless they are JWT.
func (m *Member) ForgetTokens() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if !m.c.opts.JWT {
		m.unknown = m.c.state.Auth.Issued
	}
}
