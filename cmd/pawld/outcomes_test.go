package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// These tests are of failures whose effect rests on processes and connections. The others of the table in
// docs/how-to/pawld.md are in package service, in bubbles. The next holder is always a Go program beside pawld.

// ttl is that of clients whose validity is to end, the shortest that there is, and longest that of
// clients whose validity is not to end.
const (
	ttl     = minTTL
	longest = 15 * time.Second
)

// A next is a Go program that waits for a name, as one that comes after a client of pawld's.
type next struct {
	t    *testing.T
	held chan *lock.Held
}

// await begins to wait, and returns when its key is in the queue.
func await(t *testing.T, etcd *space, name string) *next {
	t.Helper()
	client := etcd.dial(t)
	n := &next{t, make(chan *lock.Held, 1)}
	go func() {
		h, err := lock.New(client, name, lock.Options{}).Acquire(t.Context())
		if err == nil {
			n.held <- h
		}
	}()
	kv := etcdpb.NewKVClient(etcd.Conn(t))
	eventually(t, func() bool {
		resp, err := kv.Range(t.Context(), &etcdpb.RangeRequest{Key: []byte(etcd.namespace + name + "/"), RangeEnd: []byte(etcd.namespace + name + "0"), CountOnly: true})
		return err == nil && resp.Count >= 2 || len(n.held) > 0
	})
	return n
}

// wins waits until it holds the name, with a greater token. What it is not to come before, the test
// asks for afterwards; when it comes, to the millisecond, is judged in cmd/pawld/internal/service.
func (n *next) wins(token any) *lock.Held {
	n.t.Helper()
	h := receive(n.t, n.held, "nobody holds it")
	assert.Greater(n.t, float64(h.Token()), token)
	return h
}

// acquired acquires with a client, and wants a success.
func acquired(t *testing.T, d driver, more object) (token any) {
	t.Helper()
	cmd := object{"op": "acquire", "lock": "1", "name": "n", "timeoutMs": float64(testscale.Hang.Milliseconds())}
	for k, v := range more {
		cmd[k] = v
	}
	got, err := d.play(cmd)
	require.NoError(t, err)
	require.Equal(t, "HELD", got["state"], got)
	return got["token"]
}

func believes(t *testing.T, d driver) bool {
	t.Helper()
	got, err := d.play(object{"op": "check", "lock": "1"})
	require.NoError(t, err)
	return got["held"] == true
}

// drivers play each client.
var drivers = map[string][]string{
	"Go":                  {"env", driveEnv + "=1", os.Args[0]},
	"Python":              {"python3", "../../clients/python/tests/driver.py"},
	"Python with asyncio": {"python3", "../../clients/python/tests/driver.py", "aio"},
	"Node":                {"node", "../../clients/node/test/driver.js"},
}

// The first check after a stop says that it is lost, before anything was sent.
// rule: V3
func TestAStoppedClientFindsItsLockLostAtItsFirstCheck(t *testing.T) {
	t.Parallel()
	for name, args := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := ofShared(t)
			p := start(t, etcd, "")
			c := newProgram(t, args[0], append(args[1:], p.socket, fmt.Sprint(ttl.Seconds()))...)
			defer c.close()
			token := acquired(t, c, nil)
			n := await(t, etcd, "n")
			c.stop()
			n.wins(token)
			p.signal(syscall.SIGKILL) // nobody can tell it
			c.cont()
			assert.False(t, believes(t, c))
		})
	}
}

// overTCP starts pawld with a token on loopback, and a proxy before that. It has its session at etcd, so that no call
// waits for it.
func overTCP(t *testing.T, etcd *space) (p *pawld, proxy *faultproxy.Proxy, call caller) {
	t.Helper()
	const secret = "0123456789abcdef0123"
	dir := t.TempDir()
	token, policy := filepath.Join(dir, "token"), filepath.Join(dir, "policy")
	require.NoError(t, os.WriteFile(token, []byte(secret), 0o600))
	require.NoError(t, os.WriteFile(policy, []byte(fmt.Sprintf("token:local n\nuid:%d n\n", os.Getuid())), 0o600))
	p = start(t, etcd, "", "--listen", "127.0.0.1:0", "--token-file", token, "--policy", policy)
	p.hold(999, 999, "n")
	p.call("Release", object{"session": hex32(999)})
	proxy = faultproxy.Start(t, p.address())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	return p, proxy, func(method string, body object) (object, error) {
		status, out, err := post(client, "http://"+proxy.Addr()+"/pawl.v1.Locks/"+method, marshal(body), "Authorization", "Bearer "+secret)
		switch {
		case err != nil:
			return nil, fmt.Errorf("unavailable: %w", err)
		case status != 200:
			return nil, fmt.Errorf("%v: %v", out["code"], out["message"])
		}
		return out, nil
	}
}

func TestACutBetweenClientAndPawldEndsTheValidityFirst(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	_, proxy, call := overTCP(t, etcd)
	c := newThin(persistent(call))
	defer c.close()
	token := acquired(t, c, nil)
	n := await(t, etcd, "n")
	proxy.BlackHole()
	n.wins(token)
	assert.False(t, believes(t, c), "before the next one holds it")
	proxy.Heal()
	eventually(t, func() bool {
		got, err := call("Renew", object{"session": c.session})
		all, _ := got["locks"].([]any)
		return err == nil && len(all) == 1 && all[0].(object)["why"] == "EXPIRED"
	})
	assert.False(t, believes(t, c), "what has ended stays ended")
}

// Client, pawld and etcd are frozen together, between the client's check and its write, and the
// client comes back when another holds the lock. A process
// cannot be frozen with its clocks, which would be as if it did not check again: so it does not.
func TestOnAFrozenMachineTheTokenDecides(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 1)
	socket := launch.Socket(t)
	p := begin(t, "--endpoints", cluster.Endpoints()[0], "--socket", socket, "--max-ttl", "3s")
	p.waitFor(socket)
	c := newProgram(t, "env", driveEnv+"=1", os.Args[0], socket, fmt.Sprint(ttl.Seconds()))
	defer c.close()
	var store fencing.Gate
	token := acquired(t, c, nil)
	late := fencing.Token(token.(float64))
	require.NoError(t, store.Admit("n", late))

	c.stop()
	p.signal(syscall.SIGSTOP)
	cluster.Member(0).Pause(t)
	cluster.Member(0).Resume(t)
	p.signal(syscall.SIGCONT)

	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	h, err := lock.New(client, "n", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Admit("n", h.Token()))
	c.cont() // last of all: the other has it
	assert.ErrorContains(t, store.Admit("n", late), "stale token")
	assert.False(t, believes(t, c), "its clocks went on")
}
