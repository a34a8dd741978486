package main

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/grpcreflect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A7: nothing that a client leaves open holds an upgrade up for longer than the beliefs of clients last
// whose TTL is the shortest.
func TestNothingThatIsOpenHoldsAnUpgradeUp(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, p *pawld) (end func()){
		"a parked Leader": func(t *testing.T, p *pawld) (end func()) {
			answer := make(chan string, 1)
			go func() {
				_, out, err := post(p.http, api+"Leader", `{"name":"nobody","afterRevision":"1","waitMs":30000}`)
				answer <- fmt.Sprint(out, err)
			}()
			time.Sleep(300 * time.Millisecond) // it is parked by then; if not, it is refused
			return func() {
				assert.Contains(t, []string{"map[revision:1] <nil>", "map[code:unavailable message:pawld is stopping] <nil>"}, <-answer)
			}
		},
		"a connection without a request": func(t *testing.T, p *pawld) (end func()) {
			kept(t, func() net.Conn { return dialed(t, "unix", p.socket, nil) })
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
			etcd := etcdtest.Start(t)
			args := []string{"--state-dir", filepath.Join(t.TempDir(), "state")}
			p := start(t, etcd, "", args...)
			clients := make([]*thin, 5)
			for i := range clients {
				clients[i] = newThin(jsonCall(p.socket))
				defer clients[i].close()
				acquired(t, clients[i], object{"name": fmt.Sprint("n", i)})
			}
			end := open(t, p)
			p.stop(syscall.SIGTERM)
			end()
			next := start(t, etcd, p.socket, args...)
			next.awaitSaid("locks=5 sessions=5")
			time.Sleep(ttl + 500*time.Millisecond)
			for i, c := range clients {
				assert.True(t, believes(t, c), "client %d", i)
				got, err := c.play(object{"op": "release", "lock": "1"})
				require.NoError(t, err)
				assert.Equal(t, true, got["released"], "client %d: %v", i, got)
			}
		})
	}
}
