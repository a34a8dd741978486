//go:build unix

package shard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// loadsOf is the variable of a child's environment with the file that says what each shard costs.
const loadsOf = "PAWL_SHARD_TEST_LOADS"

// TestRoleLoads is not a test: it is a process with one worker, until its input ends.
func TestRoleLoads(t *testing.T) {
	if os.Getenv(role) != "loads" {
		t.Skip("the role of a child process")
	}
	c, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: strings.Split(os.Getenv(endpointsOf), ",")})
	require.NoError(t, err)
	defer c.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the input
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	load := func(i int) float64 {
		var all []float64
		if text, err := os.ReadFile(os.Getenv(loadsOf)); err != nil || json.Unmarshal(text, &all) != nil {
			return math.NaN()
		}
		return all[i]
	}
	opts := shard.Options{Load: load, Session: lease.Options{TTL: lease.MinTTL}}
	require.ErrorIs(t, shard.Run(ctx, c, "loads", loadShards, opts, func(ctx context.Context, _ *shard.Held) error {
		<-ctx.Done()
		return nil
	}), context.Canceled)
}

const loadShards, loadWorkers = 64, 8

// loadFleet are processes, and what their shards cost.
type loadFleet struct {
	*testing.T
	c    *pawl.Client
	file string
	all  []float64
}

// costs changes what the shards cost, at once.
func (f *loadFleet) costs(load func(i int) float64) {
	for i := range f.all {
		f.all[i] = load(i)
	}
	text, err := json.Marshal(f.all)
	require.NoError(f, err)
	require.NoError(f, os.WriteFile(f.file+".new", text, 0o600))
	require.NoError(f, os.Rename(f.file+".new", f.file))
}

// evened waits until every process tells what its shards cost, and none has more than 1.3 of its share, or
// its heaviest shard.
func (f *loadFleet) evened(what string) {
	ctx, cancel := context.WithTimeout(f.Context(), testscale.Hang)
	defer cancel()
	worst := math.Inf(1)
	for t, err := range shard.Observe(ctx, f.c, "loads") {
		require.NoError(f, err, "%s: a worker has %.2f of its share", what, worst)
		sum, most, total, told := map[int64]float64{}, map[int64]float64{}, 0.0, true
		for i, s := range t.Shards {
			sum[s.Lease] += f.all[i]
			most[s.Lease] = max(most[s.Lease], f.all[i])
			total += f.all[i]
			told = told && s.Lease != 0 && math.Abs(s.Load-f.all[i]) <= 0.5*f.all[i]+0.05*total/loadShards
		}
		worst = 0
		for lease := range sum {
			worst = max(worst, sum[lease]/max(total/loadWorkers, most[lease]))
		}
		if told && len(t.Members) == loadWorkers && worst <= 1.3 {
			f.Logf("%s: at most %.2f of a share", what, worst)
			return
		}
	}
}

// Eight processes even out Zipf's loads, then one hot shard, then a wave that goes through the shards.
// rule: SH14
func TestEightProcessesEvenOutLoads(t *testing.T) {
	testscale.OnlyProof(t, "it waits for minutes")
	s := etcdtest.Start(t)
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer c.Close()
	f := &loadFleet{t, c, filepath.Join(t.TempDir(), "loads"), make([]float64, loadShards)}
	zipf := func(i int) float64 { return 100 / math.Pow(float64(i+1), 0.8) }
	f.costs(zipf)
	for range loadWorkers {
		p := exec.Command(os.Args[0], "-test.run=^TestRoleLoads$", "-test.timeout=20m")
		p.Env = append(os.Environ(), role+"=loads", endpointsOf+"="+strings.Join(s.Endpoints(), ","), loadsOf+"="+f.file)
		p.Stderr = os.Stderr
		in, err := p.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, p.Start())
		defer func() {
			require.NoError(t, in.Close())
			require.NoError(t, p.Wait())
		}()
	}
	f.evened("Zipf")
	f.costs(func(i int) float64 {
		if i == 40 {
			return 150
		}
		return zipf(i)
	})
	f.evened("one hot shard")
	for at := range 4 {
		f.costs(func(i int) float64 { return 10 * (1 + 0.8*math.Sin(2*math.Pi*(float64(i)/loadShards+float64(at)/4))) })
		f.evened(fmt.Sprintf("a wave, %d of 4", at+1))
	}
}
