package etcdfake

// Leave makes the member leave the cluster. It stops, and MemberList does not show it.
func (m *Member) Leave() {
	m.c.mu.Lock()
	m.left = true
	m.c.mu.Unlock()
	m.Stop()
}

// Join makes a member that has left a new one, at its endpoint.
func (m *Member) Join() {
	m.c.mu.Lock()
	m.left = false
	m.c.mu.Unlock()
	m.ForgetTokens()
	m.Heal()
}

// ForgetTokens makes this member forget every token issued so far, as it does in a restart from a
// snapshot, unless the tokens are JWT.
func (m *Member) ForgetTokens() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if !m.c.opts.JWT {
		m.unknown = m.c.state.Auth.Issued
	}
}
