package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/shard"
)

func TestThePageShowsWhoWorksOnWhichShards(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		read := func() (out shardsAnswer) {
			w.Helper()
			got := w.requests("GET", "/api/shards", "")
			require.Equal(w, http.StatusOK, got.Code, got.Body)
			require.NoError(w, json.Unmarshal(got.Body.Bytes(), &out))
			return out
		}
		assert.Equal(w, shardsAnswer{Names: []sharedOutView{}}, read())

		for _, who := range []string{"ann", "ben"} {
			w.works("orders", 5, shard.Options{Value: []byte(who)})
		}
		require.True(w, backoff.Sleep(w.Context(), 5*time.Second))
		all := read().Names
		require.Len(w, all, 1)
		assert.Equal(w, []any{"orders", 5, 0, 0, 2}, []any{all[0].Name, all[0].Shards, all[0].Unowned, all[0].Moving, all[0].Workers})
		require.Len(w, all[0].First, 2)
		assert.Equal(w, []string{"ann", "ben"}, []string{all[0].First[0].Value, all[0].First[1].Value})
		assert.Equal(w, 5, all[0].First[0].Held+all[0].First[1].Held)
		assert.NotEmpty(w, all[0].First[0].Shards)
		assert.Empty(w, all[0].First[0].Load, "nobody measures")

		before := w.Cluster.Counts().Received["Txn"]
		read()
		read()
		assert.Equal(w, before, w.Cluster.Counts().Received["Txn"], "one read serves all browsers")
	})
}

// works is a worker of a name's shards until the test ends.
func (w *fixture) works(name string, n int, o shard.Options) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	c := w.Client()
	go func() { // ends with ctx
		defer close(ended)
		_ = shard.Run(ctx, c, name, n, o, func(ctx context.Context, _ *shard.Held) error {
			<-ctx.Done()
			return nil
		})
	}()
	w.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
}

func TestThePageShowsTheLoadsThatWorkersTell(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		w.works("orders", 4, shard.Options{Value: []byte("ann"), Load: func(int) float64 { return 2 }})
		w.works("orders", 4, shard.Options{Value: []byte("ben")})
		require.True(w, backoff.Sleep(w.Context(), 20*time.Second))
		all, err := w.page.readShards(w.Context())
		require.NoError(w, err)
		require.Len(w, all.Names[0].First, 2)
		assert.Regexp(w, `^(4|3\.9\d?) \(100 %\)$`, all.Names[0].First[0].Load)
		assert.Equal(w, "-", all.Names[0].First[1].Load)
	})
}

// stalled is the answer to a browser that reads nothing until it is closed.
type stalled struct {
	*httptest.ResponseRecorder
	closed chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	<-s.closed
	return len(p), nil
}

// The mutex of the shared answer is not held while a browser reads.
func TestABrowserThatReadsNothingHoldsUpNoOther(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		first := stalled{httptest.NewRecorder(), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.page.shards(first, httptest.NewRequestWithContext(w.Context(), "GET", "/api/shards", nil))
		}()
		synctest.Wait()                    // it has its answer, which it does not read
		free := w.page.shared.mu.TryLock() // a mutex that is waited for would stop the bubble
		if assert.True(w, free, "others wait for it") {
			w.page.shared.mu.Unlock()
			assert.Equal(w, http.StatusOK, w.requests("GET", "/api/shards", "").Code)
		}
		close(first.closed)
		<-done
	})
}
