package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// These tests check each failure with real processes and a real etcd: the table of
// docs/how-to/pawld.md. The next holder is always a Go program beside pawld. A restart of pawld is
// in the scenario and, under load, in process_test.go, and so is a pawld that is stopped.

// ttl is that of the clients here.
const ttl = 3 * time.Second

// A next is a Go program that waits for a name, as one that comes after a client of pawld's.
type next struct {
	t    *testing.T
	held chan *lock.Held
}

// await begins to wait, and returns when its key is in the queue.
func await(t *testing.T, etcd *etcdtest.Server, name string) *next {
	t.Helper()
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: etcd.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	n := &next{t, make(chan *lock.Held, 1)}
	go func() {
		h, err := lock.New(client, name, lock.Options{}).Acquire(t.Context())
		if err == nil {
			n.held <- h
		}
	}()
	kv := etcdpb.NewKVClient(etcd.Conn(t))
	require.Eventually(t, func() bool {
		resp, err := kv.Range(t.Context(), &etcdpb.RangeRequest{Key: []byte(name + "/"), RangeEnd: []byte(name + "0"), CountOnly: true})
		return err == nil && resp.Count >= 2
	}, 20*time.Second, 5*time.Millisecond)
	return n
}

// wins waits until it holds the name, which is to be no sooner than at earliest, with a
// greater token, and returns when it does.
func (n *next) wins(earliest time.Time, token any) (at time.Time) {
	n.t.Helper()
	select {
	case h := <-n.held:
		at = time.Now()
		assert.GreaterOrEqual(n.t, at, earliest, "the next holder has it too early")
		assert.Greater(n.t, float64(h.Token()), token)
	case <-time.After(time.Minute):
		n.t.Fatal("nobody holds it")
	}
	return at
}

// late is what is to take milliseconds, on a machine with much else to do.
const late = 2 * time.Second

// stalls is how often p, which has --health, did not run for a while.
func (p *pawld) stalls() int {
	p.t.Helper()
	n, err := strconv.Atoi(p.metrics()["pawld_stalls_total"])
	require.NoError(p.t, err)
	return n
}

// forgiven is by how much longer p may have kept a session because it has stalled
// since it had counted before stalls: a TTL for each, of two at most.
func (p *pawld) forgiven(before int) time.Duration {
	return time.Duration(min(p.stalls()-before, 2)) * ttl
}

// acquired acquires with a client, and wants a success. sent is before its request.
func acquired(t *testing.T, d driver, more object) (sent time.Time, token any) {
	t.Helper()
	cmd := object{"op": "acquire", "lock": "1", "name": "n", "timeoutMs": 20000.0}
	for k, v := range more {
		cmd[k] = v
	}
	sent = time.Now()
	got, err := d.play(cmd)
	require.NoError(t, err)
	require.Equal(t, "HELD", got["state"], got)
	return sent, got["token"]
}

func believes(t *testing.T, d driver) bool {
	t.Helper()
	got, err := d.play(object{"op": "check", "lock": "1"})
	require.NoError(t, err)
	return got["held"] == true
}

// drivers play a client in each language.
var drivers = map[string][]string{
	"Go":     {"env", driveEnv + "=1", os.Args[0]},
	"Python": {"python3", "../../clients/python/tests/driver.py"},
	"Node":   {"node", "../../clients/node/test/driver.js"},
}

func TestAKilledClientIsFollowedAfterItsTTL(t *testing.T) {
	for name, args := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t)
			p := start(t, etcd, "", "--health", "127.0.0.1:0")
			c := newProgram(t, args[0], append(args[1:], p.socket)...)
			defer c.close()
			sent, token := acquired(t, c, nil)
			n := await(t, etcd, "n")
			stalls := p.stalls()
			require.NoError(t, c.cmd.Process.Signal(syscall.SIGKILL))
			killed := time.Now() // its last request was before that
			assert.Less(t, n.wins(sent.Add(ttl), token).Sub(killed), ttl+late+p.forgiven(stalls))
		})
	}
}

// The first check after a stop says that it is lost, before anything was sent.
func TestAStoppedClientFindsItsLockLostAtItsFirstCheck(t *testing.T) {
	for name, args := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t)
			p := start(t, etcd, "", "--health", "127.0.0.1:0")
			c := newProgram(t, args[0], append(args[1:], p.socket)...)
			defer c.close()
			sent, token := acquired(t, c, nil)
			require.True(t, believes(t, c))
			n := await(t, etcd, "n")
			stalls := p.stalls()
			c.stop()
			stopped := time.Now()
			assert.Less(t, n.wins(sent.Add(ttl), token).Sub(stopped), ttl+late+p.forgiven(stalls))
			p.signal(syscall.SIGKILL) // nobody can tell it
			c.cont()
			assert.False(t, believes(t, c))
		})
	}
}

func TestAHungWorkersLockEndsWithItsMaxHold(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, "", "--health", "127.0.0.1:0")
	c := newThin(jsonCall(p.socket))
	defer c.close()
	const hold = 4 * time.Second
	stalls := p.stalls()
	sent, token := acquired(t, c, object{"maxHoldMs": float64(hold.Milliseconds())})
	held := time.Now()
	n := await(t, etcd, "n")
	assert.Less(t, n.wins(sent.Add(hold), token).Sub(held), hold+late+p.forgiven(stalls)) // it is renewed all the while
	assert.False(t, believes(t, c), "before the next one holds it")
	got, err := c.play(object{"op": "release", "lock": "1"})
	require.NoError(t, err)
	assert.Equal(t, object{"released": false, "why": "MAX_HOLD"}, got)
}

// overTCP starts pawld with a token on loopback, and a proxy before that.
func overTCP(t *testing.T, etcd *etcdtest.Server) (p *pawld, proxy *faultproxy.Proxy, call caller) {
	t.Helper()
	const secret = "0123456789abcdef0123"
	dir := t.TempDir()
	token, policy := filepath.Join(dir, "token"), filepath.Join(dir, "policy")
	require.NoError(t, os.WriteFile(token, []byte(secret), 0o600))
	require.NoError(t, os.WriteFile(policy, []byte(fmt.Sprintf("token:local n\nuid:%d n\n", os.Getuid())), 0o600))
	p = start(t, etcd, "", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--token-file", token, "--policy", policy)
	proxy = faultproxy.Start(t, p.address())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	return p, proxy, func(method string, body object) (object, error) {
		status, out, err := post(client, "http://"+proxy.Addr()+"/pawl.v1.Locks/"+method, marshal(body), "Authorization", "Bearer "+secret)
		if err == nil && status != 200 {
			err = fmt.Errorf("%d: %v", status, out)
		}
		return out, err
	}
}

func TestACutBetweenClientAndPawldEndsTheBeliefFirst(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p, proxy, call := overTCP(t, etcd)
	c := newThin(call)
	defer c.close()
	sent, token := acquired(t, c, nil)
	n := await(t, etcd, "n")
	stalls := p.stalls()
	proxy.BlackHole()
	cut := time.Now()
	assert.Less(t, n.wins(sent.Add(ttl), token).Sub(cut), ttl+late+p.forgiven(stalls))
	assert.False(t, believes(t, c), "before the next one holds it")
	proxy.Heal()
	require.Eventually(t, func() bool {
		got, err := call("Renew", object{"session": c.session})
		all, _ := got["locks"].([]any)
		return err == nil && len(all) == 1 && all[0].(object)["why"] == "EXPIRED"
	}, 30*time.Second, 10*time.Millisecond)
	assert.False(t, believes(t, c), "what has ended stays ended")
}

// The request was executed and its answer lost: sent again, it finds the same lock.
func TestALostAnswerToAcquireIsTheSameLock(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p, proxy, call := overTCP(t, etcd)
	acquire := object{"session": hex32(1), "requestId": hex32(2), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 1000}
	proxy.HoldAnswers()
	first := make(chan error, 1)
	go func() {
		_, err := call("Acquire", acquire)
		first <- err
	}()
	entries := func() []any {
		queues, _ := p.call("List", object{"name": "n"})["queues"].([]any)
		if len(queues) == 0 {
			return nil
		}
		return queues[0].(object)["entries"].([]any)
	}
	require.Eventually(t, func() bool { return len(entries()) == 1 }, 20*time.Second, 5*time.Millisecond)
	require.Error(t, <-first)
	proxy.Reset()
	proxy.Heal()
	var second object
	require.Eventually(t, func() (ok bool) {
		out, err := call("Acquire", acquire)
		second = out
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "HELD", second["state"])
	require.Len(t, entries(), 1)
	assert.Equal(t, lockOf(second)["token"], entries()[0].(object)["token"])
}

// A lock that is won at the moment when its client gave up is released: at once by the client's
// Release, and otherwise when the client was silent for its TTL. A client whose session is
// alive releases locks that it finds in a Renew and does not know: see the scenario.
func TestALockThatItsClientGaveUpIsGivenBack(t *testing.T) {
	for name, release := range map[string]bool{"with a Release": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t)
			p := start(t, etcd, "")
			token := p.hold(1, 1, "n")["token"]
			last := time.Now() // of its client's requests
			out := p.call("Acquire", object{"session": hex32(2), "requestId": hex32(2), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000})
			require.Equal(t, "WAITING", out["state"])
			c := newThin(jsonCall(p.socket)) // another of the same pawld's, behind it
			defer c.close()
			p.call("Release", object{"session": hex32(1)})
			if release {
				p.call("Release", object{"session": hex32(2), "requestIds": []string{hex32(2)}})
			}
			got, err := c.play(object{"op": "acquire", "lock": "1", "name": "n", "timeoutMs": 60000.0})
			require.NoError(t, err)
			require.Equal(t, "HELD", got["state"])
			assert.NotEqual(t, token, fmt.Sprint(got["token"]))
			if !release {
				assert.GreaterOrEqual(t, time.Since(last), 15*time.Second)
			}
		})
	}
}

func TestASilentEtcdEndsEveryBeliefFirst(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	proxy := faultproxy.Start(t, etcd.Addr())
	socket := socketPath(t)
	p := begin(t, "--endpoints", proxy.Addr(), "--socket", socket, "--max-ttl", "3s")
	p.waitFor(socket)
	c := newThin(jsonCall(socket))
	defer c.close()
	sent, token := acquired(t, c, nil)
	n := await(t, etcd, "n")
	proxy.BlackHole()
	n.wins(sent.Add(2*ttl), token) // etcd's TTL, counted from the grant at the earliest
	assert.False(t, believes(t, c), "before the next one holds it")
	require.Eventually(t, func() bool { // pawld goes on
		out, err := c.call("Renew", object{"session": c.session})
		all, _ := out["locks"].([]any)
		return err == nil && len(all) == 1 && all[0].(object)["state"] == "LOST"
	}, 30*time.Second, 10*time.Millisecond)
}

// The next one holds it at once, and its token is the greater.
func TestADeletedKeyIsLostAtOnce(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, "")
	l := p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000})
	n := await(t, etcd, "n")
	told := p.parked(hex32(1))
	begin := time.Now()
	deleteKey(t, etcd.Conn(t), l["keys"].([]any)[0].(string))
	var token float64
	_, err := fmt.Sscan(l["token"].(string), &token)
	require.NoError(t, err)
	n.wins(begin, token)
	all := (<-told)["locks"].([]any)
	assert.Less(t, time.Since(begin), 5*time.Second)
	require.Len(t, all, 1)
	assert.Equal(t, "KEY_DELETED", all[0].(object)["why"])
}

// pawld's own session ends, its client is not told, and the key stays until its belief has ended.
func TestAWallClockThatIsSetTakesNoKeyBeforeItsPromise(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, "")
	c := newThin(jsonCall(p.socket))
	defer c.close()
	sent, token := acquired(t, c, nil)
	n := await(t, etcd, "n") // while it is renewed: a slow machine may need longer for that than a TTL
	c.stop()                 // it hears nothing more
	p.signal(stepClock)
	n.wins(sent.Add(ttl), token)
	assert.Less(t, time.Since(sent), 20*time.Second, "pawld has given it back, and not etcd, after 30 s")
	assert.False(t, believes(t, c), "before the next one holds it")
	require.Len(t, p.locks(3), 0, "it goes on")
	p.hold(3, 3, "other")
}

func TestAKilledPawldsLockIsTheNextOnesAfterEtcdsTTL(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, "", "--max-ttl", "3s")
	c := newThin(jsonCall(p.socket))
	defer c.close()
	sent, token := acquired(t, c, nil)
	n := await(t, etcd, "n")
	p.stop(syscall.SIGKILL)
	killed := time.Now()
	assert.Less(t, n.wins(sent.Add(2*ttl), token).Sub(killed), 2*ttl+2*late) // etcd's TTL, counted from the grant at the earliest, and etcd's own delay
	assert.False(t, believes(t, c), "before the next one holds it")
}

// Client, pawld and etcd are frozen together, between the client's check and its write. A process
// cannot be frozen with its clocks, which would be as if it did not check again: so it does not.
func TestOnAFrozenMachineTheTokenDecides(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 1)
	socket := socketPath(t)
	p := begin(t, "--endpoints", cluster.Endpoints()[0], "--socket", socket, "--max-ttl", "3s")
	p.waitFor(socket)
	c := newProgram(t, "env", driveEnv+"=1", os.Args[0], socket)
	defer c.close()
	var store fencing.Gate
	_, token := acquired(t, c, nil)
	require.True(t, believes(t, c), "its last check")
	late := fencing.Token(token.(float64))
	require.NoError(t, store.Admit("n", late))

	c.stop()
	p.signal(syscall.SIGSTOP)
	cluster.Member(0).Pause(t)
	time.Sleep(3 * ttl) // longer than any of them lasts
	cluster.Member(0).Resume(t)
	p.signal(syscall.SIGCONT)
	c.cont()

	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	h, err := lock.New(client, "n", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Admit("n", h.Token()))
	assert.ErrorContains(t, store.Admit("n", late), "stale token")
	assert.False(t, believes(t, c), "its clocks went on")
}

// The same, of a key that another program wrote to. The waiters hold it in their order.
func TestAnOverwrittenKeyIsLostAtOnce(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, "")
	l := p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000})
	n := await(t, etcd, "n")
	last := newThin(jsonCall(p.socket))
	defer last.close()
	got, err := last.play(object{"op": "acquire", "lock": "1", "name": "n", "timeoutMs": 0.0})
	require.NoError(t, err)
	require.Equal(t, "TIMEOUT", got["state"], "the others are first")
	told := p.parked(hex32(1))
	begin := time.Now()
	_, err = etcdpb.NewKVClient(etcd.Conn(t)).Put(t.Context(), &etcdpb.PutRequest{Key: []byte(l["keys"].([]any)[0].(string)), Value: []byte("x")})
	require.NoError(t, err)
	all := (<-told)["locks"].([]any)
	assert.Less(t, time.Since(begin), 5*time.Second)
	require.Len(t, all, 1)
	assert.Equal(t, "KEY_OVERWRITTEN", all[0].(object)["why"])
	var token float64
	_, err = fmt.Sscan(l["token"].(string), &token)
	require.NoError(t, err)
	n.wins(begin, token)
	got, err = last.play(object{"op": "acquire", "lock": "1", "name": "n", "try": true})
	require.NoError(t, err)
	assert.Equal(t, "BUSY", got["state"], "it is the first waiter's")
}

// parked parks a Renew of a session for six seconds unless something happens, and sends its answer.
func (p *pawld) parked(session string) <-chan object {
	answer := make(chan object, 1)
	go func() {
		_, out, _ := post(p.http, api+"Renew", marshal(object{"session": session, "waitMs": 60000}))
		answer <- out
	}()
	return answer
}
