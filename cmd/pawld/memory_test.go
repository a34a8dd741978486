package main

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
)

// What a parked call over HTTP/1.1 costs: the page on pawld says it, with how much net/http has of
// it. Here the etcd in memory and the client's end of the connection count, too. Another goroutine
// for each call is more than the limit of Renew allows.
func TestAParkedCallCostsLittleMemory(t *testing.T) {
	if racedetector.On {
		t.Skip("the race detector has memory of its own for each goroutine")
	}
	const n = 100
	for name, c := range map[string]struct {
		body  func(i int) string
		limit uint64
	}{
		"Renew":  {func(int) string { return fmt.Sprintf(`{"session":%q,"waitMs":25000}`, hex32(0)) }, 43 << 10},
		"Leader": {func(int) string { return `{"name":"m","afterRevision":"1","waitMs":30000}` }, 47 << 10},
		"Acquire": {func(i int) string {
			return fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"EXCLUSIVE","ttlMs":60000,"waitMs":25000}`, hex32(i), hex32(i))
		}, 80 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := policyOf(t, fmt.Sprintf("token:local n m sessions=%d locks=%d", n+1, n+1))
				dial, limit := servedTo(t, rules, 4*n, time.Minute)
				conns := make([]net.Conn, n+1)
				call := func(i int, method, text string) {
					conns[i] = dial()
					_, err := io.WriteString(conns[i], fmt.Sprintf("POST /pawl.v1.Locks/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, bearer, len(text), text))
					require.NoError(t, err)
				}
				defer func() {
					for _, c := range conns {
						_ = c.Close()
					}
				}()
				call(0, "Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"EXCLUSIVE","ttlMs":60000,"waitMs":25000}`, hex32(0), hex32(0)))
				b := make([]byte, 4000)
				k, err := conns[0].Read(b)
				require.NoError(t, err)
				require.Contains(t, string(b[:k]), "HELD")
				measure := func() uint64 {
					time.Sleep(time.Second) // what they do first is done
					synctest.Wait()
					for range 6 { // each halves stacks
						runtime.GC()
					}
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					return m.HeapAlloc + m.StackInuse
				}
				before := measure()
				for i := range n {
					call(1+i, name, c.body(1+i))
				}
				each := (measure() - before) / n
				if under, _ := limit.Counts(); name != "Renew" { // which counts elsewhere
					require.Equal(t, n, under, "they are parked")
				}
				assert.Less(t, each, c.limit)
			})
		})
	}
}
