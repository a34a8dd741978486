package faultproxy

import "time"

// SetDelay delays every byte that is read afterwards by up on its way to the server and by down on
// its way back. 0 means no delay.
func (p *Proxy) SetDelay(up, down time.Duration) {
	p.up.setDelay(up)
	p.down.setDelay(down)
}

// BlackHole forwards nothing, either way. Connections stay, and new ones are accepted and get no
// answer.
func (p *Proxy) BlackHole() {
	p.up.hold(true)
	p.down.hold(true)
}

// HoldRequests forwards nothing to the server. What the server sends still arrives.
func (p *Proxy) HoldRequests() { p.up.hold(true) }

// HoldAnswers forwards nothing to the clients. What they send still arrives.
func (p *Proxy) HoldAnswers() { p.down.hold(true) }

// Swallow makes all connections take what either side sends and forward nothing more of it, until
// they end. New ones are served.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.swallows.Store(true)
	}
}

// Reset ends all connections with a RST; new ones are accepted.
func (p *Proxy) Reset() { p.cutAll(true) }

// Finish ends all connections with a FIN; new ones are accepted.
func (p *Proxy) Finish() { p.cutAll(false) }

// Refuse resets all connections and refuses new ones.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	p.cutAll(true)
}

// Heal ends the faults, delays included. It forwards what was held up, and accepts connections. It
// panics if it cannot listen on the port again.
func (p *Proxy) Heal() {
	p.SetDelay(0, 0)
	p.up.hold(false)
	p.down.hold(false)
	if err := p.listen(); err != nil {
		panic("faultproxy: heal: " + err.Error())
	}
}

func (p *Proxy) cutAll(rst bool) {
	p.mu.Lock()
	var all []*link
	for c := range p.conns {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.cut(rst)
	}
}
