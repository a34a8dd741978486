package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/pawl-locks/pawl/cmd/pawld/pawlv1"
	"github.com/pawl-locks/pawl/cmd/pawld/pawlv1/pawlv1connect"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// A driver plays one client's part of the scenario.
type driver interface {
	play(command object) (object, error)
	stop()
	cont()
	close()
}

// script is what every client is tried with.
const script = "../../clients/scenario.jsonl"

// Each client, in its language, does what the scenario says.
// rule: V3
func TestEveryClientPlaysTheScenario(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T, socket string, ttl time.Duration) driver{
		"Python": func(t *testing.T, socket string, ttl time.Duration) driver {
			return newProgram(t, "python3", "../../clients/python/tests/driver.py", socket, fmt.Sprint(ttl.Seconds()))
		},
		"Python with asyncio": func(t *testing.T, socket string, ttl time.Duration) driver {
			return newProgram(t, "python3", "../../clients/python/tests/driver.py", "aio", socket, fmt.Sprint(ttl.Seconds()))
		},
		"Node": func(t *testing.T, socket string, ttl time.Duration) driver {
			return newProgram(t, "node", "../../clients/node/test/driver.js", socket, fmt.Sprint(ttl.Seconds()))
		},
		"Go over gRPC": func(t *testing.T, socket string, ttl time.Duration) driver {
			return newProgram(t, "env", driveEnv+"=1", os.Args[0], socket, fmt.Sprint(ttl.Seconds()))
		},
		"curl": func(t *testing.T, socket string, ttl time.Duration) driver {
			return newThin(persistent(curlCall(t, socket))).of(ttl)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, begin)
		})
	}
}

// play plays the scenario. A client whose locks are to stay has a TTL that no pause of the machine reaches.
func play(t *testing.T, begin func(t *testing.T, socket string, ttl time.Duration) driver) {
	etcd := ofShared(t)
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"--state-dir", state, "--max-ttl", "60s"}
	p := start(t, etcd, "", args...)
	clients := map[string]driver{}
	for name, ttl := range map[string]time.Duration{"a": time.Minute, "b": time.Minute, "c": time.Minute, "d": ttl} {
		clients[name] = begin(t, p.socket, ttl)
		defer clients[name].close()
	}
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	tokens, heldKeys := map[string]float64{}, map[string]string{}
	results := map[string]chan func() (object, error){} // of what a client does meanwhile
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		at := fmt.Sprintf("%s:%d: %s", script, i+1, line)
		var c object
		require.NoError(t, json.Unmarshal(line, &c), at)
		client, _ := c["client"].(string)
		lock, _ := c["lock"].(string)
		switch c["op"] {
		case nil: // says something
		case "stop":
			clients[client].stop()
		case "continue":
			clients[client].cont()
		case "delete":
			deleteKey(t, etcd, heldKeys[client+lock])
		case "restart":
			p.stop(syscall.SIGTERM)
			p = start(t, etcd, p.socket, args...)
		case "kill":
			p.stop(syscall.SIGKILL)
		case "until":
			eventually(t, func() bool {
				got, err := clients[client].play(object{"op": "check", "lock": lock})
				return err == nil && got["held"] == false
			}, at)
		case "until wanted":
			eventually(t, func() bool {
				got, err := clients[client].play(object{"op": "wanted", "lock": lock})
				return err == nil && got["wanted"] == true
			}, at)
		default:
			if c["op"] == "acquire" && c["timeoutMs"] == nil {
				c["timeoutMs"] = float64(testscale.Hang.Milliseconds())
			}
			if c["meanwhile"] == true {
				result, of := make(chan func() (object, error), 1), clients[client]
				results[client] = result
				go func() {
					got, err := of.play(c)
					result <- func() (object, error) { return got, err }
				}()
				continue
			}
			play := func() (object, error) { return clients[client].play(c) }
			if c["op"] == "result" {
				play = <-results[client]
			}
			var got object
			var err error
			testscale.Await(t, func() bool {
				got, err = play()
				play = func() (object, error) { return clients[client].play(c) }
				early := c["again"] == true && got["state"] == "LOST"          // before it was heard of
				short := c["op"] == "acquire" && got["error"] == "unavailable" // the client's margin, for this machine
				return err != nil || !early && !short
			}, at)
			require.NoError(t, err, at)
			expect, _ := c["expect"].(object)
			for field, want := range expect {
				require.Equal(t, want, got[field], "%s: %v", at, got)
			}
			if name, _ := c["name"].(string); got["state"] == "HELD" {
				if c["greater"] == true {
					assert.Greater(t, got["token"], tokens[name], at)
				}
				tokens[name], heldKeys[client+lock] = got["token"].(float64), got["key"].(string)
			}
		}
	}
}

// driveEnv is set if the test binary is a client over gRPC, in a separate process.
const driveEnv = "PAWLD_TEST_DRIVE"

// drive plays what comes on stdin.
func drive(socket, seconds string) {
	ttl, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		panic(err)
	}
	c := newThin(persistent(grpcCall(socket))).of(time.Duration(ttl * float64(time.Second)))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var cmd object
		if err := json.Unmarshal(in.Bytes(), &cmd); err != nil {
			panic(err)
		}
		got, err := c.play(cmd)
		if err != nil {
			got = object{"error": err.Error()}
		}
		fmt.Println(marshal(got))
	}
}

// A program is a client in a separate process.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func newProgram(t *testing.T, name string, args ...string) *program {
	path, err := exec.LookPath(name)
	require.NoError(t, err, "%s is needed for this test", name)
	p := &program{t: t, cmd: exec.Command(path, args...)}
	p.cmd.Stderr = os.Stderr
	ownGroup(p.cmd)
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	return p
}

func (p *program) play(c object) (got object, err error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return nil, err
	}
	if !p.out.Scan() {
		return nil, errors.New("the program ended")
	}
	return got, json.Unmarshal(p.out.Bytes(), &got)
}

func (p *program) stop() { require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP)) }
func (p *program) cont() { require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGCONT)) }

func (p *program) close() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// A caller makes one call: an answer, or an error with the code of a refusal.
type caller func(method string, body object) (object, error)

// curlCall calls with curl, a process for each.
func curlCall(t *testing.T, socket string) caller {
	path, err := exec.LookPath("curl")
	require.NoError(t, err, "curl is needed for this test")
	return func(method string, body object) (object, error) {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(path, "-sS", "-m", fmt.Sprint(testscale.Hang.Seconds()), "--unix-socket", socket, "-H", "content-type:application/json", "--data-binary", "@-", api+method)
		cmd.Stdin = bytes.NewReader(b)
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		var got object
		if err := json.Unmarshal(out, &got); err != nil {
			return nil, err
		}
		if got["code"] != nil {
			return nil, fmt.Errorf("%v: %v", got["code"], got["message"])
		}
		return got, nil
	}
}

// persistent makes an Acquire again while pawld says that it has no answer from etcd yet, as every
// client does.
func persistent(call caller) caller {
	return func(method string, body object) (object, error) {
		for end := time.Now().Add(testscale.Hang); ; {
			out, err := call(method, body)
			if err == nil || method != "Acquire" || !strings.HasPrefix(err.Error(), "unavailable") || time.Now().After(end) {
				return out, err
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}

func unixHTTP2Client(socket string) *http.Client {
	transport := unixClient(socket).Transport.(*http.Transport)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// grpcCall calls with gRPC.
func grpcCall(socket string) caller {
	client := pawlv1connect.NewLocksClient(unixHTTP2Client(socket), "http://pawl", connect.WithGRPC())
	return func(method string, body object) (object, error) {
		ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
		defer cancel()
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		switch method {
		case "Acquire":
			return over(ctx, b, new(pb.AcquireRequest), client.Acquire)
		case "Renew":
			return over(ctx, b, new(pb.RenewRequest), client.Renew)
		case "Progress":
			return over(ctx, b, new(pb.ProgressRequest), client.Progress)
		default:
			return over(ctx, b, new(pb.ReleaseRequest), client.Release)
		}
	}
}

func over[Q, A any, PQ interface {
	*Q
	proto.Message
}](ctx context.Context, b []byte, q PQ, call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error)) (got object, err error) {
	if err := protojson.Unmarshal(b, q); err != nil {
		return nil, err
	}
	a, err := call(ctx, connect.NewRequest((*Q)(q)))
	if err != nil {
		return nil, err
	}
	if b, err = protojson.Marshal(any(a.Msg).(proto.Message)); err != nil {
		return nil, err
	}
	return got, json.Unmarshal(b, &got)
}

// A thin client keeps rule V3 and nothing else, over any caller: what the page for those
// who write a client says.
type thin struct {
	call    caller
	session string
	ttl     time.Duration
	ended   chan struct{}

	mu    sync.Mutex
	wants bool // its Renews ask whether its locks are wanted
	locks map[string]*thinLock
	asked map[string]bool // being acquired, by request
	still bool            // stopped: it renews nothing

	// parks is how long a Renew is parked, of what is left of the shortest validity. It is nil if a
	// Renew is not parked.
	parks func(left time.Duration, answered bool) time.Duration
}

// newID is 16 random bytes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

type thinLock struct {
	id    string
	until clock.Instant
	over  bool
	want  bool // somebody waits behind it
}

func newThin(call caller) *thin {
	c := &thin{call: call, session: newID(), ttl: ttl, ended: make(chan struct{}), locks: map[string]*thinLock{}, asked: map[string]bool{}}
	go c.renew() // ends with close
	return c
}

// of gives it a TTL, before its first call.
func (c *thin) of(ttl time.Duration) *thin {
	c.ttl = ttl
	return c
}

func (c *thin) renew() {
	var err error
	for tick := time.NewTicker(300 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-c.ended:
			tick.Stop()
			return
		}
		c.mu.Lock()
		idle, wants := c.still || len(c.locks) == 0, c.wants
		c.mu.Unlock()
		if idle {
			continue
		}
		sent := clock.Now()
		var got object
		got, err = c.call("Renew", object{"session": c.session, "waitMs": c.park(err == nil).Milliseconds(), "wanted": wants})
		if err == nil {
			for _, id := range c.believe(sent, got) {
				_, _ = c.call("Release", object{"session": c.session, "requestIds": []string{id}})
			}
		}
	}
}

// park is for how long the next Renew is to be parked, after one that was answered or failed.
func (c *thin) park(answered bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parks == nil {
		return 0
	}
	left := c.ttl
	for _, l := range c.locks {
		left = min(left, max(l.until.Sub(clock.Now()), 0))
	}
	return c.parks(left, answered)
}

// believe takes an answer in: what it lists as held, from the sending of its request. nobodys
// are held, and their answers were lost.
func (c *thin) believe(sent clock.Instant, answer object) (nobodys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed, _ := answer["locks"].([]any)
	known := maps.Clone(c.asked)
	for _, l := range c.locks {
		known[l.id] = true
		l.over = l.over || !clock.Now().Before(l.until)
		for _, x := range listed {
			if x := x.(object); x["requestId"] == l.id {
				l.take(sent, x)
				l.want = l.want || x["wanted"] == true
			}
		}
	}
	for _, x := range listed {
		if x := x.(object); x["state"] == "HELD" && !known[x["requestId"].(string)] {
			nobodys = append(nobodys, x["requestId"].(string))
		}
	}
	return nobodys
}

func (l *thinLock) take(sent clock.Instant, x object) {
	if x["state"] != "HELD" {
		l.over = true
		return
	}
	var ms int64
	if valid, ok := x["validForMs"].(string); ok { // left out, it is 0
		_, _ = fmt.Sscan(valid, &ms)
	}
	if until := sent.Add(time.Duration(ms) * time.Millisecond); l.until.Before(until) {
		l.until = until
	}
}

func (c *thin) play(cmd object) (object, error) {
	name, _ := cmd["lock"].(string)
	c.mu.Lock()
	l := c.locks[name]
	c.mu.Unlock()
	switch cmd["op"] {
	case "acquire":
		return c.acquire(name, cmd)
	case "check":
		c.mu.Lock()
		defer c.mu.Unlock()
		if l == nil { // released
			return object{"held": false}, nil
		}
		l.over = l.over || !clock.Now().Before(l.until)
		return object{"held": !l.over}, nil
	case "progress":
		got, err := c.call("Progress", object{"session": c.session, "requestId": l.id})
		if err != nil {
			return nil, err
		}
		return object{"held": lockOf(got)["state"] == "HELD"}, nil
	case "wanted":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wants = true
		return object{"wanted": l.want}, nil
	case "forget":
		_, err := c.call("Acquire", object{"session": c.session, "requestId": newID(), "names": []any{cmd["name"]}, "mode": "EXCLUSIVE", "ttlMs": c.ttl.Milliseconds(), "waitMs": 5000})
		return object{}, err
	case "renewed":
		until := func() clock.Instant {
			c.mu.Lock()
			defer c.mu.Unlock()
			return l.until
		}
		for before := until(); !before.Before(until()); {
			<-time.After(20 * time.Millisecond)
		}
		return object{}, nil
	}
	c.mu.Lock()
	l.over = true // before it is sent
	delete(c.locks, name)
	c.mu.Unlock()
	got, err := c.call("Release", object{"session": c.session, "requestIds": []string{l.id}})
	if err != nil {
		return nil, err
	}
	result := got["results"].([]any)[0].(object)
	return object{"released": result["released"] == true, "why": result["why"]}, nil
}

func (c *thin) acquire(name string, cmd object) (object, error) {
	l := &thinLock{id: newID()}
	body := object{"session": c.session, "requestId": l.id, "names": []any{cmd["name"]}, "mode": "EXCLUSIVE", "ttlMs": c.ttl.Milliseconds()}
	if cmd["shared"] == true {
		body["mode"] = "SHARED"
	}
	if names, ok := cmd["names"].([]any); ok {
		shared, _ := cmd["sharedNames"].([]any)
		modes := slices.Concat(slices.Repeat([]string{"EXCLUSIVE"}, len(names)), slices.Repeat([]string{"SHARED"}, len(shared)))
		body["names"], body["modes"] = slices.Concat(names, shared), modes
		delete(body, "mode")
	}
	if cmd["limit"] != nil {
		body["mode"] = "SEMAPHORE"
	}
	for _, field := range []string{"try", "maxHoldMs", "stallMs", "limit", "ttlMs"} {
		if cmd[field] != nil {
			body[field] = cmd[field]
		}
	}
	c.ask(l.id, true)
	defer c.ask(l.id, false)
	timeout, _ := cmd["timeoutMs"].(float64)
	for end := time.Now().Add(time.Duration(timeout) * time.Millisecond); ; {
		body["waitMs"] = max(min(time.Until(end).Milliseconds(), 1000), 0)
		sent := clock.Now()
		got, err := c.call("Acquire", body)
		if err != nil {
			return c.refused(l.id, err)
		}
		switch {
		case got["state"] == "BUSY":
			return object{"state": "BUSY"}, nil
		case got["state"] == "HELD":
			x := lockOf(got)
			l.take(sent, x)
			c.mu.Lock()
			c.locks[name] = l
			c.mu.Unlock()
			var token float64
			_, _ = fmt.Sscan(x["token"].(string), &token)
			return object{"state": "HELD", "token": token, "key": x["keys"].([]any)[0], "slot": slotOf(x)}, nil
		case time.Now().After(end):
			_, err := c.call("Release", object{"session": c.session, "requestIds": []string{l.id}})
			return object{"state": "TIMEOUT"}, err
		}
	}
}

// refused is the result of a call that was refused for good, and releases what it wanted, as every
// client does.
func (c *thin) refused(id string, err error) (object, error) {
	code, _, _ := strings.Cut(err.Error(), ":")
	if code != "invalid_argument" {
		return nil, err
	}
	_, err = c.call("Release", object{"session": c.session, "requestIds": []string{id}})
	return object{"error": code}, err
}

func slotOf(l object) float64 { slot, _ := l["slot"].(float64); return slot }

func (c *thin) ask(id string, begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.asked, id); begins {
		c.asked[id] = true
	}
}

func (c *thin) set(still bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.still = still
}

func (c *thin) stop()  { c.set(true) }
func (c *thin) cont()  { c.set(false) }
func (c *thin) close() { close(c.ended) }

// deleteKey does what an operator does.
func deleteKey(t *testing.T, etcd *space, key string) {
	t.Helper()
	resp, err := etcdpb.NewKVClient(etcd.Conn(t)).DeleteRange(t.Context(), &etcdpb.DeleteRangeRequest{Key: []byte(key)})
	require.NoError(t, err)
	require.EqualValues(t, 1, resp.Deleted, "key %q", key)
}
