package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/bystander"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// One client takes thousands of locks at once, while pawld's user has a password and is not root. It gets all
// of them and keeps what it had, and so does a program beside pawld.
// rule: G12
func TestAClientOfPawldTakesThousandsOfLocksAtOnce(t *testing.T) {
	t.Parallel()
	n := testscale.Of(400, 4_000)
	etcd := ofOwn(t)
	etcd.AddUser(t, "app", "pw", etcdtest.Access{Read: true, Write: true})
	etcd.EnableAuth(t, "root")
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, fmt.Appendf(nil, "uid:%d n/ locks=%d\n", os.Getuid(), n+1), 0o600))
	p := start(t, etcd, "", "--user", "app:pw", "--policy", policy)
	p.http.Transport.(*http.Transport).MaxConnsPerHost = 1_000
	request := func(i int) object {
		return object{"session": hex32(0), "requestId": hex32(i + 1), "names": []string{fmt.Sprintf("n/%d", i)}, "mode": "EXCLUSIVE", "ttlMs": 15000, "waitMs": 5000}
	}
	p.acquire(request(0))
	stop := bystander.Start(t, pawl.Config{Endpoints: etcd.Endpoints(), Username: "root", Password: "root"})
	ended := make(chan struct{})
	var renewing, taking sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(2 * time.Second):
			}
			_, err := p.patient("Renew", object{"session": hex32(0)})
			assert.NoError(t, err)
		}
	})
	began := time.Now()
	for i := range n {
		taking.Go(func() {
			for state := any("WAITING"); state == "WAITING"; {
				out, err := p.patient("Acquire", request(i+1))
				state = out["state"]
				if !assert.NoError(t, err) || state != "WAITING" {
					assert.Equal(t, "HELD", state, "%v", out)
					return
				}
			}
		})
	}
	taking.Wait()
	t.Logf("%d locks after %v", n, time.Since(began).Round(100*time.Millisecond))
	stop()
	close(ended)
	renewing.Wait()
	held := p.locks(0)
	assert.Len(t, held, n+1)
	for _, l := range held {
		assert.Equal(t, "HELD", l["state"], "%v", l)
	}
	assert.NotContains(t, p.said(), "lost")
}
