package etcdtest

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
)

// Kill ends the member's process at once, as a crash does, and waits until it is
// gone. Its data stays. One that does not run is left alone.
func (m *Member) Kill() {
	m.mu.Lock()
	cmd, exited, stdin := m.cmd, m.exited, m.stdin
	m.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-exited
	_ = stdin.Close()
}

// Restart starts the member on its data, after killing it if it runs, and waits
// until it serves linearizable requests.
func (m *Member) Restart(t testing.TB) {
	t.Helper()
	m.Start(t)
	if err := m.ready(startTimeout); err != nil {
		t.Fatalf("etcdtest: restart: %v", err)
	}
}

// Start is Restart without waiting, for members that cannot serve before others run too.
func (m *Member) Start(t testing.TB) {
	t.Helper()
	m.Kill()
	if err := m.launch(); err != nil {
		t.Fatalf("etcdtest: restart: %v", err)
	}
}

// Pause stops the member's process with SIGSTOP. It keeps its connections and sends nothing.
func (m *Member) Pause(t testing.TB) {
	t.Helper()
	if err := m.signal(true); err != nil {
		t.Fatalf("etcdtest: pause: %v", err)
	}
}

// Resume continues a paused member.
func (m *Member) Resume(t testing.TB) {
	t.Helper()
	if err := m.signal(false); err != nil {
		t.Fatalf("etcdtest: resume: %v", err)
	}
}

func (m *Member) signal(stop bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil || m.paused == stop {
		return nil
	}
	m.paused = stop
	if stop {
		return pause(m.cmd.Process)
	}
	return resume(m.cmd.Process)
}

// Isolate separates the member from its peers, in both directions. Clients still reach it. Messages
// sent meanwhile arrive after Heal, if their connection lasts that long.
func (m *Member) Isolate() { m.isolate(true, true) }

// IsolateInbound delays the peers' messages to the member. Its messages still arrive.
func (m *Member) IsolateInbound() { m.isolate(true, false) }

// IsolateOutbound delays the member's messages to its peers. Theirs still arrive.
func (m *Member) IsolateOutbound() { m.isolate(false, true) }

func (m *Member) isolate(inbound, outbound bool) {
	m.cluster.peers.each(m, m.cluster.Members(), func(p *faultproxy.Proxy, dials bool) {
		// On a connection that m has opened, requests are outbound.
		if inbound && !dials || outbound && dials {
			p.HoldRequests()
		}
		if inbound && dials || outbound && !dials {
			p.HoldAnswers()
		}
	})
}

// BlackHole separates the member from its clients. Connections stay, new ones are accepted, and
// nothing is answered. Its peers still reach it.
func (m *Member) BlackHole() { m.proxy.BlackHole() }

// HoldRequests delays clients' messages to the member; its answers arrive.
func (m *Member) HoldRequests() { m.proxy.HoldRequests() }

// HoldAnswers delays the member's messages to clients; it still receives theirs.
func (m *Member) HoldAnswers() { m.proxy.HoldAnswers() }

// Cut resets the member's clients' connections and refuses new ones.
func (m *Member) Cut() { m.proxy.Refuse() }

// Reset resets the member's clients' connections; new ones are accepted.
func (m *Member) Reset() { m.proxy.Reset() }

// Slow delays everything between clients and the member, and between it and its peers, by that long
// each way. 0 means no delay.
func (m *Member) Slow(d time.Duration) {
	m.proxy.SetDelay(d, d)
	m.cluster.peers.each(m, m.cluster.Members(), func(p *faultproxy.Proxy, _ bool) { p.SetDelay(d, d) })
}

// Heal ends the member's faults. Clients and peers reach it, it continues if it was paused, and its
// disk answers. A killed member stays dead.
func (m *Member) Heal(t testing.TB) {
	t.Helper()
	if err := m.calm(); err != nil {
		t.Fatalf("etcdtest: heal: %v", err)
	}
}

func (m *Member) calm() error {
	m.proxy.Heal()
	m.cluster.peers.each(m, m.cluster.Members(), func(p *faultproxy.Proxy, _ bool) { p.Heal() })
	m.disk.release()
	return m.signal(false)
}
