package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/handlers"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   *sync.Once // for closed
}

func newPipes() pipes { return pipes{make(chan net.Conn), make(chan struct{}), new(sync.Once)} }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

const bearer = "0123456789abcdef0123"

// served has a pawld on an etcd in memory serve connections in memory, in a bubble.
func served(t *testing.T, rules *policy.Policy, calls int) (dial func() net.Conn, limit *peer.Limit) {
	return servedTo(t, rules, calls, minTTL)
}

// servedTo is served, with a longest TTL.
func servedTo(t *testing.T, rules *policy.Policy, calls int, maxTTL time.Duration) (dial func() net.Conn, limit *peer.Limit) {
	fake := etcdfake.New(etcdfake.Options{Members: 1})
	t.Cleanup(fake.Close)
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}, Lazy: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	log := slog.New(slog.DiscardHandler)
	served := service.New(client, service.Config{Logger: log, Registry: registry.Config{DefaultTTL: minTTL, MinTTL: minTTL, MaxTTL: maxTTL, Sessions: 200, Locks: 200, Keep: time.Second}})
	t.Cleanup(func() { _ = served.Close(t.Context()) })
	limit = peer.NewLimit("calls under way", calls)
	api := &handlers.Server{Locks: served, Client: client, Policy: rules, Logger: log, Calls: limit, Upkeep: upkeepOf(rules)}
	l := newPipes()
	d := &daemon{options: options{maxTTL: maxTTL}, log: log}
	server := d.server(listener{Listener: l, peers: &peer.Listener{Kind: peer.Token, Token: peer.TokenIs(bearer), Hosts: func(string) bool { return true }}}, api.Handler())
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }() // ends with l
	t.Cleanup(func() { _ = l.Close(); <-done; _ = server.Close() })
	return func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		return ours
	}, limit
}

// A body that does not end is given up ten seconds after the first byte of its request, whatever the
// request is for.
func TestEveryBodyHasOneDeadline(t *testing.T) {
	rules := policyOf(t, "token:local a")
	for name, c := range map[string]struct {
		rules  *policy.Policy
		path   string
		token  string
		full   bool // all calls are under way
		pause  time.Duration
		status string
	}{
		"of a call":            {rules, "/pawl.v1.Locks/Acquire", bearer, false, 0, "400"},
		"after a slow header":  {rules, "/pawl.v1.Locks/Acquire", bearer, false, 4 * time.Second, "400"},
		"of an unknown path":   {rules, "/nothing", bearer, false, 0, "404"},
		"of an unknown method": {rules, "/pawl.v1.Locks/Nothing", bearer, false, 0, "400"},
		"after a 401":          {rules, "/pawl.v1.Locks/Acquire", "another", false, 0, "401"},
		"beyond --max-calls":   {rules, "/pawl.v1.Locks/Acquire", bearer, true, 0, "429"},
		"of one without names": {nil, "/pawl.v1.Locks/Acquire", bearer, false, 0, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, limit := served(t, c.rules, 2)
				if c.full {
					require.NoError(t, limit.Take("x"))
					require.NoError(t, limit.Take("y"))
				}
				conn, begin := dial(), time.Now()
				defer time.AfterFunc(time.Minute, func() { _ = conn.Close() }).Stop() // it would never end
				answer := make(chan string, 1)
				go func() { // ends when the connection does
					b, _ := io.ReadAll(conn)
					answer <- string(b)
				}()
				_, err := io.WriteString(conn, "POST "+c.path+" HTTP/1.1\r\nHost: x\r\n")
				require.NoError(t, err)
				time.Sleep(c.pause)
				_, err = io.WriteString(conn, "Authorization: Bearer "+c.token+"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
				require.NoError(t, err)
				got := <-answer
				assert.LessOrEqual(t, time.Since(begin), handlers.ReadWait+time.Second) // and how long net/http lingers
				first, _, _ := strings.Cut(got, "\r\n")
				assert.Contains(t, first, c.status)
			})
		})
		if c.pause > 0 { // HTTP/2 has it since the end of the header
			continue
		}
		t.Run(name+" over HTTP/2", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, limit := served(t, c.rules, 2)
				if c.full {
					require.NoError(t, limit.Take("x"))
					require.NoError(t, limit.Take("y"))
				}
				transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}
				transport.Protocols.SetUnencryptedHTTP2(true)
				defer transport.CloseIdleConnections()
				body, rest := io.Pipe()
				defer rest.Close()
				ctx, end := context.WithTimeout(t.Context(), time.Minute) // it would never end
				defer end()
				begin := time.Now()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+c.path, io.MultiReader(strings.NewReader("{"), body))
				require.NoError(t, err)
				r.Header.Set("Authorization", "Bearer "+c.token)
				r.Header.Set("Content-Type", "application/json")
				resp, err := transport.RoundTrip(r)
				require.NoError(t, err)
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body)
				assert.LessOrEqual(t, time.Since(begin), handlers.ReadWait)
				assert.Contains(t, resp.Status, c.status)
			})
		})
	}
}

// A header that does not end is given up before a body would be.
func TestAHeaderThatDoesNotEndIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, _ := served(t, nil, 2)
		conn, begin := dial(), time.Now()
		defer time.AfterFunc(time.Minute, func() { _ = conn.Close() }).Stop() // it would never end
		_, err := io.WriteString(conn, "POST /pawl.v1.Locks/Leader HTTP/1.1\r\nHost: x\r\nX: ")
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err, "closed by pawld")
		assert.Less(t, time.Since(begin), handlers.ReadWait)
	})
}

// With a policy, who has no line in it takes nothing of anybody: he is refused before he is counted.
func TestWhoHasNoLineIsRefusedBeforeHeIsCounted(t *testing.T) {
	for name, rules := range map[string]*policy.Policy{"another's policy": policyOf(t, "cn:other a"), "no policy, and not local": nil} {
		for _, call := range []string{"Acquire", "Renew", "Release", "Confirm", "Proclaim", "Progress", "Leader", "List"} {
			t.Run(name+" "+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dial, limit := served(t, rules, 2)
					require.NoError(t, limit.Take("x"))
					require.NoError(t, limit.Take("y")) // whatever is counted would be refused as too much
					conn := dial()
					defer conn.Close()
					_, err := io.WriteString(conn, "POST /pawl.v1.Locks/"+call+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+bearer+"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
					require.NoError(t, err)
					b := make([]byte, 1000)
					n, err := conn.Read(b)
					require.NoError(t, err)
					assert.Contains(t, string(b[:n]), "403")
					_, refused := limit.Counts()
					assert.Zero(t, refused)
				})
			})
		}
	}
}
