package handlers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// serve serves the API on an etcd in memory, to the one who has the token.
func serve(t testing.TB, fake *etcdfake.Cluster, rules *policy.Policy, calls int) (web *http.Client) {
	t.Helper()
	web, _ = serveLocks(t, fake, rules, calls)
	return web
}

// serveLocks is serve, and returns what is served, too.
func serveLocks(t testing.TB, fake *etcdfake.Cluster, rules *policy.Policy, calls int) (web *http.Client, served *service.Service) {
	t.Helper()
	client, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	served = service.New(client, service.Config{Logger: slog.New(slog.DiscardHandler), Owner: "pawld", Registry: registry.Config{
		DefaultTTL: 3 * time.Second, MinTTL: 3 * time.Second, MaxTTL: 3 * time.Second, Sessions: 100, Locks: 100, Keep: time.Second,
	}})
	t.Cleanup(served.Drain)
	server := &Server{Locks: served, Client: client, Logger: slog.New(slog.DiscardHandler), Policy: rules, Calls: peer.NewLimit("calls under way", calls),
		Upkeep: peer.NewLimitOfEach("renewals and releases under way", func(string) int { return 2 })}
	known := &peer.Listener{Kind: peer.Token, Hosts: func(string) bool { return true }}
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	serving := &http.Server{Handler: withToken(known, server.Handler()), ConnContext: func(ctx context.Context, c net.Conn) context.Context { return known.Context(ctx, c) }}
	ended := make(chan struct{})
	go func() { _ = serving.Serve(l); close(ended) }() // returns when l is closed
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = serving.Close()
		<-ended
	})
	return &http.Client{Transport: transport, Timeout: testscale.Hang}, served
}

// api is where the calls are.
const api = "http://pawld/pawl.v1.Locks/"

// pipes is a listener of connections in memory, which may be in a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }
func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func post(t *testing.T, web *http.Client, method, body string) (status int, answer string) {
	t.Helper()
	resp, err := web.Post(api+method, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, b.String()
}

// park makes a call that is parked, until ctx ends.
func park(ctx context.Context, t *testing.T, web *http.Client, method, body string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, api+method, strings.NewReader(body))
	assert.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	_, err = web.Do(r)
	assert.ErrorIs(t, err, context.Canceled)
}

// What others have in the namespace costs a List nothing.
func TestListReadsNoMoreThanThePolicyGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := allow(t, "orders/ report")
		fake := etcdfake.New(etcdfake.Options{Members: 1})
		t.Cleanup(fake.Close)
		web := serve(t, fake, rules, 100)
		for i, name := range []string{"orders/1", "report"} {
			status, answer := post(t, web, "Acquire", fmt.Sprintf(`{"session":"0123456789abcdef0123456789abcdef","requestId":"0123456789abcdef0123456789abcde%d","names":[%q],"mode":"EXCLUSIVE"}`, i, name))
			require.Equal(t, 200, status, answer)
		}
		fake.Put("secret/1", "x", 0)

		var mu sync.Mutex
		var reads []string
		fake.Inject(etcdfake.Rule{Match: func(r etcdfake.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if text := fmt.Sprint(r.Message); strings.Contains(text, "request_range") {
				reads = append(reads, text)
			}
			return false
		}})
		status, answer := post(t, web, "List", "{}")
		require.Equal(t, 200, status, answer)
		assert.Contains(t, answer, `"orders/1"`)
		assert.Contains(t, answer, `"report"`)
		assert.NotContains(t, answer, "secret")
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, reads)
		for _, text := range reads {
			assert.Regexp(t, "orders|report", text)
		}
	})
}

// allow is a policy that gives the callers of a test some names.
func allow(t *testing.T, names string) *policy.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(path, []byte("token:local "+names+"\n"), 0o600))
	rules, err := policy.Load(path)
	require.NoError(t, err)
	return rules
}

// The limit holds for what is parked, and the refusal says which.
func TestACallBeyondTheLimitIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 1})
		t.Cleanup(fake.Close)
		rules := allow(t, "n")
		web := serve(t, fake, rules, 4) // two for one identity
		var parked sync.WaitGroup
		defer parked.Wait()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		for range 2 {
			parked.Go(func() { park(ctx, t, web, "Leader", `{"name":"n","afterRevision":"1","waitMs":30000}`) })
		}
		synctest.Wait()
		status, answer := post(t, web, "Leader", `{"name":"n"}`)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Contains(t, answer, `"code":"resource_exhausted"`)
		assert.Contains(t, answer, "token:local has 2 calls under way, and may have no more")
		for method, body := range map[string]string{"Renew": `{"session":"0123456789abcdef0123456789abcdef"}`, "Release": `{"session":"0123456789abcdef0123456789abcdef"}`} {
			status, answer = post(t, web, method, body)
			assert.Equal(t, http.StatusOK, status, "%s, without which a lock is lost, or kept: %s", method, answer)
		}
		end()
		parked.Wait()
		synctest.Wait()
		status, answer = post(t, web, "Leader", `{"name":"n"}`)
		assert.Equal(t, http.StatusOK, status, answer)
	})
}

// What waits bounds no renewals, and they are bounded by themselves.
func TestRenewalsBeyondTheLimitOfAnIdentityAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 1})
		t.Cleanup(fake.Close)
		rules := allow(t, "n")
		web := serve(t, fake, rules, 4) // two renewals, too
		const session = `"session":"0123456789abcdef0123456789abcdef"`
		status, answer := post(t, web, "Acquire", `{`+session+`,"requestId":"0123456789abcdef0123456789abcdef","names":["n"],"mode":"EXCLUSIVE"}`)
		require.Equal(t, http.StatusOK, status, answer)
		ctx, end := context.WithCancel(t.Context())
		var parked sync.WaitGroup
		defer parked.Wait()
		defer end()
		for range 2 {
			parked.Go(func() { park(ctx, t, web, "Renew", `{`+session+`,"waitMs":1500}`) })
		}
		synctest.Wait()
		status, answer = post(t, web, "Renew", `{`+session+`}`)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Contains(t, answer, "token:local has 2 renewals and releases under way, and may have no more")
		status, answer = post(t, web, "Leader", `{"name":"n"}`)
		assert.Equal(t, http.StatusOK, status, answer)
	})
}

// serveNames serves the API to one who may use the names of a policy's line.
func serveNames(t *testing.T, names string) (fake *etcdfake.Cluster, web *http.Client) {
	t.Helper()
	fake = etcdfake.New(etcdfake.Options{Members: 1})
	t.Cleanup(fake.Close)
	rules := allow(t, names)
	return fake, serve(t, fake, rules, 100)
}

// unheld is a read of a name whose keys nobody else reads.
var unheld = regexp.MustCompile(`request_range.*"n[1-7]`)

// Names are read some at a time, by all calls together, too; a name that cannot be read fails all.
func TestListReadsSomeNamesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, web := serveNames(t, "n0 n1 n2 n3 n4 n5 n6 n7 n8")
		for _, i := range []int{0, 8} {
			code, answer := post(t, web, "Acquire", fmt.Sprintf(`{"session":"0123456789abcdef0123456789abcdef","requestId":"0123456789abcdef0123456789abcde%d","names":["n%d"],"mode":"EXCLUSIVE"}`, i, i))
			require.Equal(t, http.StatusOK, code, answer)
		}
		var mu sync.Mutex
		var reads []time.Time
		slow := fake.Inject(etcdfake.Rule{
			Delay: 500 * time.Millisecond,
			Match: func(r etcdfake.Request) bool {
				if !unheld.MatchString(fmt.Sprint(r.Message)) {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				reads = append(reads, time.Now())
				return true
			},
		})
		atOnce := func() (n int) { // as long as the first is not answered
			mu.Lock()
			defer mu.Unlock()
			for _, at := range reads {
				if at.Sub(reads[0]) < 450*time.Millisecond {
					n++
				}
			}
			reads = nil
			return n
		}
		renew := func() {
			code, answer := post(t, web, "Renew", `{"session":"0123456789abcdef0123456789abcdef"}`)
			require.Equal(t, http.StatusOK, code, answer)
		}
		renew()
		code, answer := post(t, web, "List", "{}")
		require.Equal(t, http.StatusOK, code, answer)
		assert.Regexp(t, `"n0".*"n8"`, answer)
		assert.Equal(t, readsOfOne, atOnce())
		renew()
		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() { _, _ = post(t, web, "List", "{}") })
		}
		calls.Wait()
		assert.Equal(t, readsOfAll, atOnce())
		slow.Lift()

		fake.Inject(etcdfake.Rule{
			Match: func(r etcdfake.Request) bool { return strings.Contains(fmt.Sprint(r.Message), `"n7`) },
			Err:   status.Error(grpccodes.PermissionDenied, "etcdserver: permission denied"),
		})
		code, answer = post(t, web, "List", "{}")
		assert.Equal(t, http.StatusForbidden, code, answer)
	})
}

// An answer has a size that every client takes, and says that it is not all.
func TestListIsBounded(t *testing.T) {
	ctx := context.WithValue(t.Context(), callerKey{}, caller{identity: "uid:1", local: true})
	c := &calls{&Server{}}
	position := inspect.Position{Owner: strings.Repeat("x", 1000)}
	for name, queues := range map[string][]inspect.NamedQueue{
		"many names": slices.Repeat([]inspect.NamedQueue{{Name: strings.Repeat("n", 1000), Queue: []inspect.Position{position}}}, 1000),
		"one queue":  {{Name: "n", Queue: slices.Repeat([]inspect.Position{position}, 2000)}},
		"no queue":   slices.Repeat([]inspect.NamedQueue{{Name: strings.Repeat("n", 1000)}}, 2000),
	} {
		answer := c.listing(ctx, queues, true)
		assert.True(t, answer.More, name)
		assert.Greater(t, proto.Size(answer), maxList*9/10, name)
		assert.Less(t, proto.Size(answer), maxList*11/10, name)
		answer = c.listing(ctx, queues[:1:1], true)
		assert.Equal(t, name == "one queue", answer.More, name)
	}
}

// An identity that begins with another one, or that looks like another one with its text, is a
// separate identity.
func TestMineIsOfOneIdentityAlone(t *testing.T) {
	identities := []string{"cn:worker", "cn:worker 2", `cn:worker "2"`, `"cn:worker"`, `cn:worker"`, `cn:worker\`, "cn:worker\t2", "cn:worker\u00a02", "uid:1", "uid:10", "spiffe://a/b"}
	for _, owner := range identities {
		for _, text := range []string{"", "2", `"`, " "} {
			for _, who := range identities {
				assert.Equal(t, who == owner, entry(inspect.Position{Owner: ownerOf(owner, text)}, who).Mine, "%s, %q of %s", who, text, owner)
			}
		}
	}
	assert.Equal(t, `cn:worker "2"`, ownerOf("cn:worker", "2"))
	assert.Equal(t, `"cn:worker 2" "a"`, ownerOf("cn:worker 2", "a"))
	assert.Equal(t, "uid:1000", ownerOf("uid:1000", ""))
}
