package handlers

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// What is parked is answered when pawld stops, with what it knows; after that every call is
// refused.
func TestAParkedLeaderIsAnsweredWhenPawldStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 1})
		t.Cleanup(fake.Close)
		rules := allow(t, "n")
		web, service := serveLocks(t, fake, rules, 100)
		type result struct {
			status int
			answer string
		}
		parked := make(chan result, 1)
		go func() {
			resp, err := web.Post(api+"Leader", "application/json", strings.NewReader(`{"name":"n","afterRevision":"1","waitMs":30000}`))
			if !assert.NoError(t, err) {
				parked <- result{}
				return
			}
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			parked <- result{resp.StatusCode, string(answer)}
		}()
		require.Eventually(t, func() bool { return fake.Counts().Sent["Watch"] > 0 }, 10*time.Second, time.Millisecond)
		service.Drain()
		select {
		case got := <-parked:
			assert.Equal(t, result{http.StatusOK, `{"revision":"1"}`}, got)
		case <-time.After(10 * time.Second):
			t.Fatal("it stays parked")
		}
		status, answer := post(t, web, "Leader", `{"name":"n","afterRevision":"1","waitMs":30000}`)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, answer, "pawld is stopping")
	})
}
