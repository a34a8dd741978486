package show

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/shard"
)

// shared is sharedBy without loads.
func shared(t *testing.T, f func(w *inmemory.Fixture, c *pawl.Client)) { sharedBy(t, nil, f) }

// sharedBy runs f beside two workers, "a" and "b", of the six shards of "orders/eu".
func sharedBy(t *testing.T, load func(shard int) float64, f func(w *inmemory.Fixture, c *pawl.Client)) {
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 2)
		for _, value := range []string{"a", "b"} {
			c := w.Client()
			go func() { // ends with ctx
				done <- shard.Run(ctx, c, "orders/eu", 6, shard.Options{Value: []byte(value), Load: load}, func(ctx context.Context, _ *shard.Held) error {
					<-ctx.Done()
					return nil
				})
			}()
			time.Sleep(10 * time.Millisecond)
		}
		c := w.Client()
		time.Sleep(4 * time.Second)
		f(w, c)
		cancel()
		for range 2 {
			assert.ErrorIs(t, <-done, context.Canceled)
		}
	})
}

var numbers = regexp.MustCompile(`\b[0-9a-f]{14,16}\b|revision \d+`)

func TestShardsAreShownByWorkerAndOneByOne(t *testing.T) {
	shared(t, func(w *inmemory.Fixture, c *pawl.Client) {
		var out bytes.Buffer
		require.NoError(w, (&shardsOptions{}).show(w.Context(), &out, c, "orders/eu"))
		assert.Equal(w, "\"orders/eu\" at #: 6 shards, 2 workers\n"+
			"WORKER LEASE WEIGHT HAS SHARDS STATE\na # 1 3 # plans\nb # 1 3 # -\n",
			regexp.MustCompile(` (0-2|3-5)`).ReplaceAllString(spaces.ReplaceAllString(numbers.ReplaceAllString(out.String(), "#"), " "), " #"))
		assert.Contains(w, out.String(), "0-2")
		out.Reset()
		require.NoError(w, (&shardsOptions{each: true}).show(w.Context(), &out, c, "orders/eu"))
		assert.Equal(w, 7, strings.Count(out.String(), "\n"))
		out.Reset()
		o := shardsOptions{}
		o.JSON = true
		require.NoError(w, o.show(w.Context(), &out, c, "orders/eu"))
		var got tableJSON
		require.NoError(w, json.Unmarshal(out.Bytes(), &got))
		assert.Equal(w, []any{"orders/eu", 6, 0, 0, 0.0}, []any{got.Name, got.Shards, got.Unowned, got.Moving, got.Unplanned})
		assert.Equal(w, "a", got.Members[0].Value)
		assert.Equal(w, 3, got.Members[1].Held)
		assert.Len(w, got.Owners, 6)
		assert.NotContains(w, out.String(), "load")
		assert.NotContains(w, out.String(), "measured")
		assert.Positive(w, got.Owners[5].Token)
		out.Reset()
		require.NoError(w, (&shardsOptions{}).show(w.Context(), &out, c, "orders"))
		assert.Equal(w, "\"orders\": nobody works on its shards\n", out.String())

		all, err := inspect.SharedOuts(w.Context(), c, "orders/")
		require.NoError(w, err)
		assert.Equal(w, []inspect.SharedOut{{Name: "orders/eu", Shards: 6, Workers: 2, Owned: 6}}, all)
		all, err = inspect.SharedOuts(w.Context(), c, "x")
		require.NoError(w, err)
		assert.Empty(w, all)
	})
}

func TestLoadsAreShownWhereTheyAreMeasured(t *testing.T) {
	sharedBy(t, func(i int) float64 { return 1500 * float64(1+i/3) }, func(w *inmemory.Fixture, c *pawl.Client) {
		time.Sleep(20 * time.Second)
		show := func(o shardsOptions) string {
			var out bytes.Buffer
			require.NoError(w, o.show(w.Context(), &out, c, "orders/eu"))
			return spaces.ReplaceAllString(out.String(), " ")
		}
		text := show(shardsOptions{})
		assert.Contains(w, text, "WEIGHT HAS LOAD SHARDS STATE")
		assert.Regexp(w, ` 3 4[45]\d0 \(6[67] %\) [03]-[25] `, text)
		assert.Regexp(w, ` 3 (8[89]|9[01])\d0 \(13[34] %\) [03]-[25] `, text)
		assert.Regexp(w, `NEXT LOAD\n0 \S+ \S+ \d+ - 1[45]\d0\n`, show(shardsOptions{each: true}))
		o := shardsOptions{}
		o.JSON = true
		var got tableJSON
		require.NoError(w, json.Unmarshal([]byte(show(o)), &got))
		assert.Equal(w, 3, got.Members[0].Measured)
		assert.InDelta(w, 3*1500*3, *got.Members[0].Load+*got.Members[1].Load, 400)
		assert.InDelta(w, 3000, got.Owners[5].Load, 70)
	})
}

// A program that is not written in Go routes by what --watch prints: an object for each change.
func TestShardsAreWatched(t *testing.T) {
	shared(t, func(w *inmemory.Fixture, c *pawl.Client) {
		ctx, cancel := context.WithCancel(w.Context())
		read, write := io.Pipe()
		done := make(chan error)
		o := shardsOptions{watch: true}
		o.JSON = true
		go func() { done <- o.show(ctx, write, c, "orders/eu") }() // ends with ctx
		lines := json.NewDecoder(read)
		var first, second tableJSON
		require.NoError(w, lines.Decode(&first))
		require.NoError(w, inspect.Drain(w.Context(), c, "orders/eu", first.lease(w, "b"), true))
		for {
			require.NoError(w, lines.Decode(&second))
			if second.Members[1].Held == 0 && second.Moving == 0 {
				break
			}
		}
		assert.Equal(w, 6, second.Members[0].Held)
		assert.Equal(w, "a", second.Owners[5].Value)
		cancel()
		go func() { _, _ = io.Copy(io.Discard, read) }() // ends with the pipe
		assert.ErrorIs(w, <-done, context.Canceled)
		require.NoError(w, write.Close())
	})
}

// lease is the lease of the worker with this value.
func (t tableJSON) lease(w *inmemory.Fixture, value string) int64 {
	for _, m := range t.Members {
		if m.Value == value {
			lease, err := strconv.ParseInt(m.Lease, 16, 64)
			require.NoError(w, err)
			return lease
		}
	}
	require.Fail(w, "no such worker")
	return 0
}

func TestAShardThatRestsIsNotWithoutAnOwner(t *testing.T) {
	rest := shard.Rest{Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	table := shard.Table{Shards: []shard.Owner{{Lease: 1, Token: 2}, {Rest: rest}, {}, {Rest: shard.Rest{Until: rest.Until, Kills: true}}},
		Members: []shard.Member{{Lease: 1, Held: 1, Wished: 1, Sick: true, HeldUntil: rest.Until}}}
	var out bytes.Buffer
	require.NoError(t, printWorkers(&out, "orders", table))
	assert.Contains(t, out.String(), "4 shards, 1 worker, 1 without an owner, 2 resting\n")
	assert.Contains(t, out.String(), "sick, gets nothing until 03:04:05: it died repeatedly")
	out.Reset()
	require.NoError(t, printShards(&out, table))
	assert.Contains(t, out.String(), "rests until 03:04:05: it failed on several workers")
	assert.Contains(t, out.String(), "rests until 03:04:05: workers died with it")
	got := shardsJSON("orders", table)
	assert.Equal(t, []any{1, 2, "2026-01-02T03:04:05Z", true}, []any{got.Unowned, got.Resting, got.Owners[1].RestsUntil, got.Owners[3].Kills})
}

var spaces = regexp.MustCompile(` +`)

func TestADrainOfNobodyIsRefused(t *testing.T) {
	all := []shard.Member{{Lease: 1}, {Lease: 2, Value: []byte("b")}}
	_, err := pick(all, "")
	assert.ErrorIs(t, err, inspect.ErrNoWorker)
	m, err := pick(all, cli.LeaseHex(1))
	require.NoError(t, err)
	assert.EqualValues(t, 1, m.Lease)
}

func TestADrainedWorkerGivesItsShardsToTheOthers(t *testing.T) {
	shared(t, func(w *inmemory.Fixture, c *pawl.Client) {
		table := func() (t shard.Table) {
			for t, err := range shard.Observe(w.Context(), c, "orders/eu") {
				require.NoError(w, err)
				return t
			}
			return t
		}
		var out bytes.Buffer
		require.NoError(w, (&drainOptions{}).drain(w.Context(), &out, c, "orders/eu", "b"))
		assert.Contains(w, out.String(), "gives up its 3 shards")
		time.Sleep(3 * time.Second)
		assert.Equal(w, []int{6, 0}, []int{table().Members[0].Held, table().Members[1].Held})
		assert.True(w, table().Members[1].Drained)
		assert.Equal(w, "drained", cli.Particular(table().Members[1]))
		require.NoError(w, (&drainOptions{}).drain(w.Context(), &out, c, "orders/eu", cli.LeaseHex(table().Members[0].Lease)))
		time.Sleep(3 * time.Second)
		assert.Equal(w, 6, table().Members[0].Held, "nobody comes for them")
		require.NoError(w, (&drainOptions{undo: true}).drain(w.Context(), &out, c, "orders/eu", "b"))
		time.Sleep(3 * time.Second)
		assert.Equal(w, []int{0, 6}, []int{table().Members[0].Held, table().Members[1].Held})
		require.NoError(w, (&drainOptions{undo: true}).drain(w.Context(), &out, c, "orders/eu", "a"))
		time.Sleep(3 * time.Second)
		assert.Equal(w, []int{3, 3}, []int{table().Members[0].Held, table().Members[1].Held})
		err := (&drainOptions{}).drain(w.Context(), &out, c, "orders/eu", "c")
		assert.ErrorIs(w, err, inspect.ErrNoWorker)
		assert.ErrorContains(w, err, `"c"`)
		padded := "00" + cli.LeaseHex(table().Members[0].Lease)
		require.NoError(w, (&drainOptions{undo: true}).drain(w.Context(), &out, c, "orders/eu", padded), "as etcdctl prints it")
	})
}

func TestShowSaysThatANamesShardsAreSharedOut(t *testing.T) {
	shared(t, func(w *inmemory.Fixture, c *pawl.Client) {
		for name, want := range map[string]string{"orders/eu": "look with pawl shards orders/eu\n", "orders/": ""} {
			var out, hints bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetOut(&out)
			cmd.SetErr(&hints)
			require.NoError(w, (&showOptions{}).show(w.Context(), cmd, c, inspect.Scope{Name: name}))
			assert.Contains(w, out.String(), "nobody holds it")
			assert.True(w, strings.HasSuffix(hints.String(), want) && (want != "" || hints.Len() == 0), hints.String())
		}
	})
}

// A key that is no worker's and stands first in a queue is no owner.
func TestAForeignKeyInAShardsQueueIsShown(t *testing.T) {
	shared(t, func(w *inmemory.Fixture, c *pawl.Client) {
		k, err := keys.NewShards("", "orders/eu")
		require.NoError(w, err)
		foreign, owner := k.Queue(3).Prefix+"readme", w.Cluster.Keys(k.Queue(3).Prefix)[0]
		w.Cluster.Put(foreign, "", 0)
		owned := func() inspect.SharedOut {
			all, err := inspect.SharedOuts(w.Context(), c, "orders/eu")
			require.NoError(w, err)
			return all[0]
		}
		assert.Equal(w, inspect.SharedOut{Name: "orders/eu", Shards: 6, Workers: 2, Owned: 6, Foreign: []string{foreign}}, owned(), "it waits")
		require.True(w, w.Cluster.Delete(owner))
		time.Sleep(3 * time.Second)
		assert.Equal(w, 5, owned().Owned)
		var out bytes.Buffer
		require.NoError(w, (&shardsOptions{}).show(w.Context(), &out, c, "orders/eu"))
		assert.Contains(w, out.String(), "1 without an owner, 1 moving")
		out.Reset()
		require.NoError(w, (&shardsOptions{each: true}).show(w.Context(), &out, c, "orders/eu"))
		assert.Regexp(w, `(?m)^3 +- +foreign key `, out.String())
		require.True(w, w.Cluster.Delete(foreign))
		time.Sleep(time.Second)
		assert.Equal(w, inspect.SharedOut{Name: "orders/eu", Shards: 6, Workers: 2, Owned: 6}, owned())
	})
}
