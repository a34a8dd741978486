//go:build unix

package shard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// These are variables of a child's environment.
const (
	endpointsOf = "PAWL_SHARD_TEST_ENDPOINTS"
	shardsOf    = "PAWL_SHARD_TEST_SHARDS"
)

// ttl is for how long the shards of a process that was killed have nobody.
var ttl = time.Duration(testscale.Of(3, 10)) * time.Second

// TestRoleWorkers is not a test: it is a process with any number of workers. Each line of its
// input names one that joins, or one that has joined and leaves; at its end all leave.
func TestRoleWorkers(t *testing.T) {
	if os.Getenv(role) != "workers" {
		t.Skip("the role of a child process")
	}
	c, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: strings.Split(os.Getenv(endpointsOf), ",")})
	require.NoError(t, err)
	n, err := strconv.Atoi(os.Getenv(shardsOf))
	require.NoError(t, err)
	stops := map[string]context.CancelFunc{}
	var all sync.WaitGroup
	log := os.NewFile(3, "log")
	defer log.Close()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		name := in.Text()
		if stops[name] != nil {
			stops[name]()
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		stops[name] = stop
		w := &worker{name, c.KV(), log}
		all.Go(func() { // ends with ctx
			opts := shard.Options{Value: []byte(name), Session: lease.Options{TTL: ttl}}
			if err := shard.Run(ctx, c, "jobs", n, opts, w.work); ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, name, "ended:", err)
			}
		})
	}
	for _, stop := range stops {
		stop()
	}
	all.Wait()
	_ = c.Close()
}

type worker struct {
	name string
	kv   *kv.Client
	log  *os.File // one pipe of all processes: its order is that of their writes
}

func (w *worker) say(what string, h *shard.Held) {
	if _, err := fmt.Fprintf(w.log, "%s %s %d %d\n", what, w.name, h.Shard(), h.Token()); err != nil {
		panic(err)
	}
}

// work counts once when it begins, and once when it ends.
func (w *worker) work(ctx context.Context, h *shard.Held) error {
	w.say("begins", h)
	next, err := w.load(ctx, h)
	if err == nil {
		err = w.save(ctx, h, next+1)
	}
	if err == nil {
		<-ctx.Done()
		_ = w.save(context.WithoutCancel(ctx), h, next+2)
	}
	w.say("ends", h)
	if errors.Is(h.Err(), lock.ErrLost) { // otherwise it was held when it said that it ends
		w.say("lost", h)
	}
	return err
}

func counter(i int) string { return fmt.Sprintf("counters/%d", i) }

// load is what has been counted for the shard, as its last owner knew it.
func (w *worker) load(ctx context.Context, h *shard.Held) (next int, err error) {
	e, err := w.kv.Get(ctx, counter(h.Shard()))
	next, _ = parse(e.Value)
	return next, err
}

// save stores what this owner knows, and adds what is new to what is stored. The two differ once
// two owners have counted side by side.
func (w *worker) save(ctx context.Context, h *shard.Held, next int) error {
	e, err := w.kv.Get(ctx, counter(h.Shard()))
	if err != nil {
		return err
	}
	_, handled := parse(e.Value)
	_, err = w.kv.Txn(ctx, kv.Txn{
		Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put(counter(h.Shard()), fmt.Appendf(nil, "%d %d", next, handled+1))},
	})
	return err
}

func parse(value []byte) (next, handled int) {
	_, _ = fmt.Sscanf(string(value), "%d %d", &next, &handled)
	return next, handled
}
