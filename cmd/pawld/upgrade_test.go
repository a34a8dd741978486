package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"connectrpc.com/grpcreflect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing that a client leaves open holds an upgrade up, and no client notices it.
func TestNothingThatIsOpenHoldsAnUpgradeUp(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, p *pawld) (end func()){
		"a parked Leader": func(t *testing.T, p *pawld) (end func()) {
			c := dialed(t, "unix", p.socket, nil)
			body := `{"name":"nobody","afterRevision":"1","waitMs":30000}`
			_, err := fmt.Fprintf(c, "POST /pawl.v1.Locks/Leader HTTP/1.1\r\nHost: pawl\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
			require.NoError(t, err)
			answers := bufio.NewReader(c)
			line, err := answers.ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, line, "100 Continue") // its headers have arrived
			_, err = answers.ReadString('\n')
			require.NoError(t, err)
			_, err = c.Write([]byte(body))
			require.NoError(t, err)
			answer := make(chan string, 1)
			go func() {
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					answer <- err.Error()
					return
				}
				defer resp.Body.Close()
				var out object
				err = json.NewDecoder(resp.Body).Decode(&out)
				answer <- fmt.Sprint(out, err)
			}()
			// It is parked; if not yet, it is refused.
			return func() {
				assert.Contains(t, []string{"map[revision:1] <nil>", "map[code:unavailable message:pawld is stopping] <nil>"}, <-answer)
			}
		},
		"a connection without a request": func(t *testing.T, p *pawld) (end func()) {
			kept(t, func() net.Conn { return dialed(t, "unix", p.socket, nil) }, leaderRequest)
			return func() {}
		},
		"a body that trickles in": func(t *testing.T, p *pawld) (end func()) {
			c := kept(t, func() net.Conn { return dialed(t, "unix", p.socket, nil) }, leaderRequest)
			_, err := c.Write([]byte("POST /pawl.v1.Locks/List HTTP/1.1\r\nHost: pawl\r\nContent-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"))
			require.NoError(t, err)
			line, err := bufio.NewReader(c).ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, line, "100 Continue") // its headers have arrived
			_, err = c.Write([]byte("{"))
			require.NoError(t, err)
			return func() {}
		},
		"a stream of gRPC's reflection": func(t *testing.T, p *pawld) (end func()) {
			transport := unixClient(p.socket).Transport.(*http.Transport)
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetUnencryptedHTTP2(true)
			stream := grpcreflect.NewClient(&http.Client{Transport: transport}, "http://pawl").NewStream(t.Context())
			names, err := stream.ListServices()
			require.NoError(t, err)
			assert.Contains(t, fmt.Sprint(names), "pawl.v1.Locks")
			return func() { _, _ = stream.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := ofShared(t)
			args := []string{"--state-dir", filepath.Join(t.TempDir(), "state")}
			p := start(t, etcd, "", args...)
			clients := make([]*thin, 5)
			for i := range clients {
				clients[i] = newThin(jsonCall(p.socket))
				defer clients[i].close()
				acquired(t, clients[i], object{"name": fmt.Sprint("n", i), "ttlMs": float64(longest.Milliseconds())})
			}
			end := open(t, p)
			p.stop(syscall.SIGTERM)
			end()
			next := start(t, etcd, p.socket, args...)
			next.awaitSaid("locks=5 sessions=5")
			for i, c := range clients {
				assert.True(t, believes(t, c), "client %d", i)
				got, err := c.play(object{"op": "release", "lock": "1"})
				require.NoError(t, err)
				assert.Equal(t, true, got["released"], "client %d: %v", i, got)
			}
		})
	}
}

// A term that was taken over proclaims nothing if a newer policy does not give its name. It stays
// held, and can be renewed, confirmed and released.
func TestAPolicyHoldsForATermThatWasTakenOver(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	dir := t.TempDir()
	args := []string{"--state-dir", filepath.Join(dir, "state")}
	p := start(t, etcd, "", args...)
	for id, name := range []string{"chief", "other"} {
		p.acquire(object{"session": hex32(1), "requestId": hex32(id), "names": []string{name}, "mode": "ELECTION", "value": "YQ==", "waitMs": 5000})
	}
	p.stop(syscall.SIGTERM)
	policy := filepath.Join(dir, "policy")
	require.NoError(t, os.WriteFile(policy, fmt.Appendf(nil, "uid:%d other\n", os.Getuid()), 0o600))
	p = start(t, etcd, p.socket, append(args, "--policy", policy)...)
	proclaim := func(id int) object { return object{"session": hex32(1), "requestId": hex32(id), "value": "Yg=="} }
	status, out := p.raw("Proclaim", marshal(proclaim(0)))
	assert.Equal(t, http.StatusForbidden, status, out)
	assert.Equal(t, "permission_denied", out["code"])
	assert.Contains(t, out["message"], `no name "chief"`)
	assert.Equal(t, "HELD", lockOf(p.call("Proclaim", proclaim(1)))["state"])
	assert.Equal(t, "HELD", lockOf(p.call("Confirm", object{"session": hex32(1), "requestId": hex32(0)}))["state"])
	assert.Len(t, p.locks(1), 2)

	reader := start(t, etcd, "")
	assert.Equal(t, "YQ==", reader.call("Leader", object{"name": "chief"})["value"])
	assert.Equal(t, "Yg==", reader.call("Leader", object{"name": "other"})["value"])
	results := p.call("Release", object{"session": hex32(1), "requestIds": []string{hex32(0)}})["results"].([]any)
	assert.Equal(t, true, results[0].(object)["released"])
}
