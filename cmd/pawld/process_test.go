package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
)

// jsonCall calls over JSON on connections that it keeps, and again while pawld is away.
func jsonCall(socket string) caller {
	p := &pawld{http: unixClient(socket)}
	return func(method string, body object) (object, error) { return p.patient(method, body) }
}

// patient calls again while nobody answers, as every client does.
func (p *pawld) patient(method string, body object) (object, error) {
	for end := time.Now().Add(testscale.Hang); ; {
		status, out, err := post(p.http, api+method, marshal(body))
		switch {
		case err == nil && status == 200:
			return out, nil
		case err == nil && out["code"] != "unavailable":
			return nil, fmt.Errorf("%v: %v", out["code"], out["message"])
		case time.Now().After(end):
			return nil, fmt.Errorf("%w, %v", err, out)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Clients that wait while pawld is replaced wait on, and each is served once: a thousand in the proof.
func TestAThousandWaitersOutliveARestart(t *testing.T) {
	t.Parallel()
	const names = 10
	each := testscale.Of(5, 100)
	etcd := ofShared(t)
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, []byte(fmt.Sprintf("uid:%d n/ sessions=1100 locks=1100\n", os.Getuid())), 0o600))
	args := []string{"--state-dir", filepath.Join(t.TempDir(), "state"), "--max-sessions", "1100", "--max-connections", "9000", "--policy", policy}
	p := start(t, etcd, "", args...)
	var all []any
	for i := range names {
		all = append(all, fmt.Sprintf("n/%d", i))
	}
	first := object{"session": hex32(1), "requestId": hex32(2), "names": all, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000}
	p.acquire(first)

	p.http.Transport.(*http.Transport).MaxIdleConnsPerHost = names * each
	client, restarted := &pawld{http: p.http}, make(chan struct{})
	ctx, finish := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			_, err := client.patient("Renew", object{"session": hex32(1), "waitMs": 1000})
			assert.NoError(t, err)
		}
	})
	var served [names]fencing.Gate // each has the tokens of one name, in the order of their holders
	var waiting, waitingStill sync.WaitGroup
	for i := range names * each {
		waiting.Add(1)
		waitingStill.Add(1)
		done.Go(func() { // ends when it was served
			session, id, name := hex32(10+2*i), hex32(11+2*i), i%names
			acquire := object{"session": session, "requestId": id, "names": []any{all[name]}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 0}
			poll := func() object {
				out, err := client.patient("Acquire", acquire)
				if !assert.NoError(t, err) {
					return object{"state": "failed"}
				}
				return out
			}
			assert.Equal(t, "WAITING", poll()["state"])
			waiting.Done()
			for again := time.NewTicker(5 * time.Second); ; { // until the last has queued, which may take longer than the TTL
				select {
				case <-again.C:
					if state := poll()["state"]; ctx.Err() == nil {
						assert.Equal(t, "WAITING", state)
					}
					continue
				case <-restarted:
				case <-ctx.Done(): // the test has failed
				}
				again.Stop()
				break
			}
			if ctx.Err() != nil {
				return
			}
			assert.Equal(t, "WAITING", poll()["state"])
			waitingStill.Done()
			acquire["waitMs"] = 5000
			for {
				switch out := poll(); out["state"] {
				case "WAITING":
					continue
				case "HELD":
					token, err := strconv.ParseInt(lockOf(out)["token"].(string), 10, 64)
					assert.NoError(t, err)
					assert.NoError(t, served[name].Admit(all[name].(string), fencing.Token(token)))
					_, err = client.patient("Release", object{"session": session, "requestIds": []string{id}})
					assert.NoError(t, err)
				default:
					assert.Fail(t, "not served", "%v", out)
				}
				return
			}
		})
	}
	waiting.Wait()
	p.stop(syscall.SIGTERM)
	p = start(t, etcd, p.socket, args...)
	close(restarted)
	waitingStill.Wait()
	assert.Equal(t, true, p.call("Release", object{"session": hex32(1)})["results"].([]any)[0].(object)["released"])
	finish()
	done.Wait()
	assert.NotContains(t, p.said(), "panic")
}

// A pawld is stopped for longer than its TTL at etcd: another has the lock then, after the
// client's validity, and pawld's first tick says that it is lost.
func TestAStoppedPawldFindsItsLocksLostAtItsFirstTick(t *testing.T) {
	t.Parallel()
	etcd := ofOwn(t)
	p := start(t, etcd, "")
	was, err := strconv.ParseInt(p.hold(1, 1, "n")["token"].(string), 10, 64)
	require.NoError(t, err)
	p.signal(syscall.SIGSTOP) // for longer than its lease lasts, which ends here at once
	leases := etcdpb.NewLeaseClient(etcd.Conn(t))
	all, err := leases.LeaseLeases(t.Context(), &etcdpb.LeaseLeasesRequest{})
	require.NoError(t, err)
	require.Len(t, all.Leases, 1)
	_, err = leases.LeaseRevoke(t.Context(), &etcdpb.LeaseRevokeRequest{ID: all.Leases[0].ID})
	require.NoError(t, err)
	h, err := lock.New(etcd.dial(t), "n", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	assert.Greater(t, h.Token(), fencing.Token(was))
	p.signal(syscall.SIGCONT)
	out, err := p.patient("Renew", object{"session": hex32(1)})
	require.NoError(t, err)
	locks := out["locks"].([]any)
	require.Len(t, locks, 1)
	assert.Equal(t, "LOST", locks[0].(object)["state"])
	require.NoError(t, h.Err())
	require.NoError(t, h.Release(t.Context()))
}

// A lossy network loses the first request of each three before it arrives, and the answer of the second.
type lossy struct {
	http.RoundTripper
	sent int
}

var errLossy = errors.New("lost")

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.sent++
	if l.sent%3 == 1 {
		return nil, errLossy
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if l.sent%3 == 2 && err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // it was executed
		_ = resp.Body.Close()
		return nil, errLossy
	}
	return resp, err
}

// writes are the events at etcd of all keys below name, in order.
func writes(t *testing.T, etcd *space, name string) (events []string) {
	t.Helper()
	conn := etcd.Conn(t)
	last, err := etcdpb.NewKVClient(conn).Put(t.Context(), &etcdpb.PutRequest{Key: []byte("the end of the log")})
	require.NoError(t, err)
	watch, err := etcdpb.NewWatchClient(conn).Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, watch.Send(&etcdpb.WatchRequest{RequestUnion: &etcdpb.WatchRequest_CreateRequest{CreateRequest: &etcdpb.WatchCreateRequest{
		Key: []byte{0}, RangeEnd: []byte{0}, StartRevision: 1,
	}}}))
	for {
		resp, err := watch.Recv()
		require.NoError(t, err)
		for _, ev := range resp.Events {
			if ev.Kv.ModRevision == last.Header.Revision {
				return events
			}
			if strings.HasPrefix(string(ev.Kv.Key), etcd.namespace+name+"/") {
				events = append(events, ev.Type.String())
			}
		}
	}
}

// V6, V7: each call fails twice, once before it is executed and once after, and has its effect once, as
// etcd's log of events shows.
// rule: V7
func TestEachCallCanBeRepeated(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	p := start(t, etcd, "")
	p.warm()
	client := &http.Client{Transport: &lossy{RoundTripper: p.http.Transport}}
	thrice := func(method string, body object) object {
		for range 2 {
			_, _, err := post(client, api+method, marshal(body))
			require.ErrorIs(t, err, errLossy, method)
		}
		status, out, err := post(client, api+method, marshal(body))
		require.NoError(t, err, method)
		require.Equal(t, 200, status, "%s: %v", method, out)
		return out
	}
	s, id := hex32(1), hex32(2)
	acquired := thrice("Acquire", object{"session": s, "requestId": id, "names": []string{"n"}, "mode": "ELECTION", "value": "eA==", "waitMs": 1000})
	require.Equal(t, "HELD", acquired["state"])
	token := lockOf(acquired)["token"]
	assert.Equal(t, []string{"PUT"}, writes(t, etcd, "n"))
	assert.Equal(t, token, lockOf(thrice("Confirm", object{"session": s, "requestId": id}))["token"])
	assert.Equal(t, token, lockOf(thrice("Progress", object{"session": s, "requestId": id}))["token"])
	renewed := thrice("Renew", object{"session": s})["locks"].([]any)
	require.Len(t, renewed, 1)
	assert.Equal(t, token, renewed[0].(object)["token"])
	assert.Equal(t, []string{"PUT"}, writes(t, etcd, "n"), "neither writes")
	assert.Equal(t, token, lockOf(thrice("Proclaim", object{"session": s, "requestId": id, "value": "eQ=="}))["token"])
	leader := thrice("Leader", object{"name": "n"})
	assert.Equal(t, "eQ==", leader["value"])
	assert.Len(t, thrice("List", object{"name": "n"})["queues"], 1)
	for _, id := range []string{id, hex32(3)} { // the second was never acquired
		thrice("Release", object{"session": s, "requestIds": []string{id}})
	}
	log := writes(t, etcd, "n")
	assert.Equal(t, "PUT", log[0])
	assert.Equal(t, "DELETE", log[len(log)-1])
	assert.LessOrEqual(t, len(log), 4, "%v: the value that was proclaimed twice is written twice at the most", log)
	_, out := p.raw("Acquire", marshal(object{"session": s, "requestId": hex32(3), "names": []string{"n"}, "mode": "EXCLUSIVE"}))
	assert.Equal(t, "invalid_argument", out["code"], "an Acquire that comes after its Release")
	thrice("Release", object{"session": s})
	assert.Equal(t, log, writes(t, etcd, "n"))
	assert.Empty(t, p.call("List", object{})["queues"])
}

// Leader is a blocking query.
func TestLeaderReturnsWhenThereIsAnother(t *testing.T) {
	t.Parallel()
	p := start(t, ofOwn(t), "") // a separate one, for its revisions
	none := p.call("Leader", object{"name": "n"})
	assert.Equal(t, object{"revision": "1"}, none)
	assert.Equal(t, none, p.call("Leader", object{"name": "n", "afterRevision": none["revision"], "waitMs": 200}))
	next := make(chan object, 1)
	go func() {
		_, out, _ := post(p.http, api+"Leader", marshal(object{"name": "n", "afterRevision": none["revision"], "waitMs": 15000}))
		next <- out
	}()
	l := p.hold(1, 1, "n")
	out := receive(t, next)
	assert.Equal(t, l["token"], out["token"])
	owner := fmt.Sprintf("uid:%d", os.Getuid())
	eventually(t, func() bool { return p.call("Leader", object{"name": "n"})["owner"] == owner }, "it is left out if etcd is slow")
}

// Listings of locks and elections show the client and not the daemon: pawl ls, show, top and ui
// read the same as Queue.
func TestListingsShowTheClientsOwner(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	args := []string{"--state-dir", filepath.Join(t.TempDir(), "state")}
	p := start(t, etcd, "", args...)
	want := map[string][]string{"lock": {"EXCLUSIVE", ""}, "reader": {"SHARED", ""}, "slot": {"SEMAPHORE", ""}, "chief": {"ELECTION", ""}}
	id := 1
	for name, of := range want {
		body := object{"session": hex32(1), "requestId": hex32(id + 1), "names": []string{name}, "mode": of[0], "owner": "worker " + name, "waitMs": 5000}
		if of[0] == "SEMAPHORE" {
			body["limit"] = 2
		}
		p.acquire(body)
		id++
	}
	client := etcd.dial(t)
	shown := func() {
		for name := range want {
			queue := lock.New(client, name, lock.Options{}).Queue
			if name == "slot" {
				queue = lock.NewSemaphore(client, name, 2, lock.Options{}).Queue
			}
			q, err := queue(t.Context())
			require.NoError(t, err)
			require.Len(t, q, 1)
			assert.Equal(t, fmt.Sprintf("uid:%d %q", os.Getuid(), "worker "+name), q[0].Owner)
		}
	}
	shown()
	p.stop(syscall.SIGTERM)
	p = start(t, etcd, p.socket, args...)
	shown() // it was taken over
	p.call("Release", object{"session": hex32(1)})
	kv := etcdpb.NewKVClient(etcd.Conn(t))
	all, err := kv.Range(t.Context(), &etcdpb.RangeRequest{Key: []byte(etcd.namespace), RangeEnd: []byte(etcd.namespace + "\xff"), KeysOnly: true})
	require.NoError(t, err)
	assert.Len(t, all.Kvs, 1, "pawld's session alone is left")
}

// A pawld that cannot serve leaves what it would take over to the next one.
func TestAHealthAddressInUseLosesNoLock(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	state := filepath.Join(t.TempDir(), "state")
	p := start(t, etcd, "", "--state-dir", state)
	held := p.hold(1, 1, "n")
	p.stop(syscall.SIGTERM)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	other := begin(t, append(etcd.flags(), "--socket", p.socket, "--state-dir", state, "--health", taken.Addr().String())...)
	assert.Equal(t, 1, other.wait())
	assert.Contains(t, other.said(), "--health")
	all := start(t, etcd, p.socket, "--state-dir", state).locks(1)
	require.Len(t, all, 1)
	assert.Equal(t, "HELD", all[0]["state"])
	assert.Equal(t, held["token"], all[0]["token"])
}

// What cannot be left to a successor is given back when the last validity has ended, and not with the
// lease.
func TestAStateThatCannotBeWrittenBlocksNoLock(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	state := filepath.Join(t.TempDir(), "state")
	p := start(t, etcd, "", "--state-dir", state)
	p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": ttl.Milliseconds()})
	require.NoError(t, os.Mkdir(filepath.Join(state, "state.json.new"), 0o700))
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 1, p.wait())
	assert.Contains(t, p.said(), "state.json.new")
	start(t, etcd, "").acquire(object{"session": hex32(2), "requestId": hex32(2), "names": []string{"n"}, "mode": "EXCLUSIVE", "try": true})
}

// V4: a second signal comes while pawld waits for a validity in what was lost, and another key is overwritten
// then. Nothing is left to the successor, which would remove both: they end with the lease.
func TestASecondSignalRemovesNothingInWhichAClientBelieves(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	kv := etcdpb.NewKVClient(etcd.Conn(t))
	state := filepath.Join(t.TempDir(), "state")
	p := start(t, etcd, "", "--state-dir", state)
	held := func(body object) []any { return p.acquire(body)["keys"].([]any) }
	set := held(object{"session": hex32(2), "requestId": hex32(2), "names": []string{"b", "c"}, "mode": "EXCLUSIVE", "ttlMs": longest.Milliseconds()})
	key := []byte(held(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 15000})[0].(string))
	_, err := kv.DeleteRange(t.Context(), &etcdpb.DeleteRangeRequest{Key: []byte(set[0].(string))})
	require.NoError(t, err)
	eventually(t, func() bool { return p.locks(2)[0]["state"] == "LOST" })
	p.signal(syscall.SIGTERM)
	p.awaitSaid("stopping")
	p.signal(syscall.SIGTERM)
	_, err = kv.Put(t.Context(), &etcdpb.PutRequest{Key: key, Value: []byte("x")})
	require.NoError(t, err)
	require.Equal(t, exitFailed, p.wait(), p.said())
	assert.NoFileExists(t, filepath.Join(state, "state.json"))
	next := start(t, etcd, p.socket, "--state-dir", state)
	assert.Empty(t, next.locks(1))
	for _, name := range []any{string(key), set[1]} {
		got, err := kv.Range(t.Context(), &etcdpb.RangeRequest{Key: []byte(name.(string))})
		require.NoError(t, err)
		assert.Len(t, got.Kvs, 1, "its client believes")
	}
}
