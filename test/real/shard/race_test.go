//go:build unix

package shard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// Workers of several processes join, leave and are killed at random: no two work on one shard,
// every counter is exact, and when the last change is over the shards are shared out evenly,
// after few moves.
// rule: SH1
func TestWorkersOfManyProcesses(t *testing.T) {
	s := etcdtest.Start(t)
	c := newCrowd(t, s.Endpoints(), 40)
	c.race(2, 4, 10, 500*time.Millisecond)
}

func TestTwoHundredWorkersOfEightProcesses(t *testing.T) {
	testscale.OnlyProof(t, "it takes three minutes")
	s := etcdtest.Start(t)
	c := newCrowd(t, s.Endpoints(), 2000)
	c.race(8, 25, 120, 2*time.Second)
}

// Likewise on three members, of which the leader is killed now and then.
func TestWorkersOnThreeMembers(t *testing.T) {
	testscale.OnlyProof(t, "the cluster elects its leader several times")
	s := etcdtest.StartCluster(t, 3)
	c := newCrowd(t, s.Endpoints(), 200)
	c.race(4, 6, 40, time.Second, slices.Repeat([]func(){func() {
		leader := s.Leader(t)
		leader.Kill()
		leader.Start(t)
	}}, 4)...)
}

// crowd is the processes of a race.
type crowd struct {
	*testing.T
	endpoints []string
	n         int
	client    *pawl.Client
	all       []*process
	names     int
	logs, log *os.File // the read end, and the write end that children get
	read      sync.WaitGroup

	mu     sync.Mutex
	inside map[int]hold    // who works on each shard, as the log says
	beside map[[2]hold]int // the first had not ended when the second began; how often
	lost   map[hold]bool
	begins int
	dead   map[string]bool // workers of processes that were killed
}

// hold is one call of work.
type hold struct {
	worker       string
	shard, token int
}

// process is a child.
type process struct {
	*exec.Cmd
	in      io.WriteCloser
	workers []string // that have not been told to leave
	leaving []string // some may have left
}

func newCrowd(t *testing.T, endpoints []string, n int) *crowd {
	t.Helper()
	c := &crowd{T: t, endpoints: endpoints, n: n, inside: map[int]hold{}, beside: map[[2]hold]int{}, lost: map[hold]bool{}, dead: map[string]bool{}}
	var err error
	c.client, err = pawl.Dial(t.Context(), pawl.Config{Endpoints: endpoints})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.client.Close() })
	c.logs, c.log, err = os.Pipe()
	require.NoError(t, err)
	c.read.Go(c.follow) // ends with the last process
	t.Cleanup(func() {
		for _, p := range c.all {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
		_ = c.log.Close()
		c.read.Wait()
		_ = c.logs.Close()
	})
	return c
}

// follow reads what all workers say, in the order in which they said it.
func (c *crowd) follow() {
	for lines := bufio.NewScanner(c.logs); lines.Scan(); {
		var what string
		var h hold
		if _, err := fmt.Sscan(lines.Text(), &what, &h.worker, &h.shard, &h.token); err != nil {
			c.Errorf("%q: %v", lines.Text(), err)
			continue
		}
		c.mu.Lock()
		before, works := c.inside[h.shard]
		switch {
		case what == "begins":
			c.begins++
			if works {
				c.beside[[2]hold{before, h}]++
			}
			c.inside[h.shard] = h
		case what == "ends" && before == h:
			delete(c.inside, h.shard)
		case what == "lost":
			c.lost[h] = true
		}
		c.mu.Unlock()
	}
}

// start starts a process with so many workers.
func (c *crowd) start(workers int) *process {
	c.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^TestRoleWorkers$")}
	p.Env = append(os.Environ(), role+"=workers", endpointsOf+"="+strings.Join(c.endpoints, ","), shardsOf+"="+strconv.Itoa(c.n))
	p.Stderr, p.ExtraFiles = os.Stderr, []*os.File{c.log}
	var err error
	p.in, err = p.StdinPipe()
	require.NoError(c, err)
	require.NoError(c, p.Start())
	c.all = append(c.all, p)
	for range workers {
		c.join(p)
	}
	return p
}

func (c *crowd) join(p *process) {
	c.Helper()
	c.names++
	name := fmt.Sprintf("w%d", c.names)
	p.workers = append(p.workers, name)
	_, err := fmt.Fprintln(p.in, name)
	require.NoError(c, err)
}

func (c *crowd) leave(p *process, at int) {
	c.Helper()
	_, err := fmt.Fprintln(p.in, p.workers[at])
	require.NoError(c, err)
	p.leaving = append(p.leaving, p.workers[at])
	p.workers = slices.Delete(p.workers, at, at+1)
}

func (c *crowd) kill(p *process) {
	c.Helper()
	require.NoError(c, p.Process.Kill())
	_ = p.Wait()
	c.all = slices.DeleteFunc(c.all, func(q *process) bool { return q == p })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Concat(p.workers, p.leaving) {
		c.dead[name] = true
	}
	for i, h := range c.inside {
		if c.dead[h.worker] {
			delete(c.inside, i)
		}
	}
}

// living are the names of all workers that are to share the shards out.
func (c *crowd) living() (all []string) {
	for _, p := range c.all {
		all = append(all, p.workers...)
	}
	return all
}

// settled waits until the living workers, and no others, share the shards out evenly, and
// nothing moves.
func (c *crowd) settled() {
	c.Helper()
	all := c.living()
	ctx, cancel := context.WithTimeout(c.Context(), testscale.Hang)
	defer cancel()
	for t, err := range shard.Observe(ctx, c.client, "jobs") {
		require.NoError(c, err, "never settled")
		load := map[string]int{}
		for _, s := range t.Shards {
			if s.Next == 0 {
				load[string(s.Value)]++
			}
		}
		even := len(t.Shards) == c.n && len(t.Members) == len(all)
		for _, name := range all {
			even = even && load[name] >= c.n/len(all) && load[name] <= (c.n+len(all)-1)/len(all)
		}
		if even {
			return
		}
	}
}

// race has so many processes with so many workers each, makes so many changes, and checks what
// came of it.
func (c *crowd) race(processes, workers, changes int, pause time.Duration, more ...func()) {
	c.Helper()
	r := rand.New(rand.NewPCG(testscale.Seed(c), 1))
	for range processes {
		c.start(workers)
	}
	c.settled()
	c.mu.Lock()
	before := c.begins
	c.mu.Unlock()
	least := 0 // what the changes have to move
	for at := range changes {
		time.Sleep(time.Duration(r.Int64N(int64(pause))))
		p := c.all[r.IntN(len(c.all))]
		share := c.n/len(c.living()) + 1
		switch kind := at % 10; {
		case kind == 9 && len(more) > 0:
			more[0]()
			more = more[1:]
		case kind == 4: // all of its workers die, and as many come
			least += 2 * share * workers
			c.kill(p)
			c.start(workers)
		case kind%2 == 0 || len(c.living()) <= processes*workers/2 || len(p.workers) == 0:
			least += share
			c.join(p)
		default:
			least += share
			c.leave(p, r.IntN(len(p.workers)))
		}
	}
	quiet := time.Now()
	c.settled()
	c.Logf("%d workers have %d shards evenly %.1f s after the last change", len(c.living()), c.n, time.Since(quiet).Seconds())
	for _, p := range c.all {
		require.NoError(c, p.in.Close())
	}
	for _, p := range c.all {
		require.NoError(c, p.Wait())
	}
	require.NoError(c, c.log.Close())
	c.read.Wait()
	c.check(before, least)
}

func (c *crowd) check(before, least int) {
	c.Helper()
	c.Logf("work began %d times, for changes that have to move up to %d shards; %d holds were lost", c.begins-before, least, len(c.lost))
	for pair, times := range c.beside {
		// Of a hold that was lost, work learns late where the machine was busy; of a process that
		// was killed nobody knows when it read what it said.
		assert.True(c, c.lost[pair[0]] || c.dead[pair[0].worker], "%v began beside %v, %d times", pair[1], pair[0], times)
		assert.Greater(c, pair[1].token, pair[0].token)
	}
	assert.LessOrEqual(c, c.begins-before, 2*(least+len(c.lost)))
	for i := range c.n {
		e, err := c.client.KV().Get(c.Context(), counter(i))
		require.NoError(c, err)
		next, handled := parse(e.Value)
		assert.Equal(c, next, handled, "shard %d", i)
		assert.Positive(c, next)
	}
}
