//go:build linux

package reclaim_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A succession is a series of workers of which each is killed, so that the next holds.
type succession struct {
	t       testing.TB
	order   order
	rnd     *rand.Rand
	beliefs []belief
	began   int     // workers
	killed  []int64 // when each holder was
	stops   int
}

func newSuccession(t testing.TB, endpoints []string, name string, most int, seed uint64) *succession {
	t.Helper()
	path := filepath.Join(t.TempDir(), "beliefs")
	all, err := beliefs(path, most)
	require.NoError(t, err)
	return &succession{
		t: t, beliefs: all, rnd: rand.New(rand.NewPCG(seed, 1)),
		order: order{Endpoints: endpoints, Name: name, Beliefs: path},
	}
}

// begin starts the next worker, with its file in dir, and waits until it waits for the lock.
func (s *succession) begin(dir string) *process {
	s.t.Helper()
	s.order.Dir, s.order.Slot = dir, s.began
	s.began++
	text, err := json.Marshal(s.order)
	require.NoError(s.t, err)
	p := start(s.t, syscall.SysProcAttr{}, "worker", string(text))
	p.said("waits")
	return p
}

// kill kills a holder, at a random instant of its work, perhaps while it is stopped. Nobody else holds while
// it is.
func (s *succession) kill(p *process) {
	s.t.Helper()
	for range s.rnd.IntN(2000) { // a moment
		_ = now()
	}
	if s.rnd.IntN(5) == 0 {
		s.stops++
		p.signal(unix.SIGSTOP)
		var info unix.Siginfo
		require.NoError(s.t, unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil))
		s.alive(s.order.Dir)
		if s.rnd.IntN(2) == 0 {
			p.signal(unix.SIGCONT)
		}
	}
	s.killed = append(s.killed, now())
	p.signal(unix.SIGKILL)
}

// alive fails if the holder's file proves its death.
func (s *succession) alive(dir string) {
	d := open(s.t, dir)
	names, err := d.Names()
	require.NoError(s.t, err)
	require.NotEmpty(s.t, names)
	for _, name := range names {
		_, err := d.Claim(name)
		require.True(s.t, errors.Is(err, reclaim.ErrAlive) || errors.Is(err, fs.ErrNotExist), "%s: %v", name, err)
	}
}

// judge fails if two have believed at once, or a token has fallen, and returns how long after each kill the
// next one held.
func (s *succession) judge() (after []time.Duration) {
	s.t.Helper()
	var held []*belief
	for i := range s.beliefs[:s.began] {
		if s.beliefs[i].token.Load() != 0 {
			held = append(held, &s.beliefs[i])
		}
	}
	slices.SortFunc(held, func(a, b *belief) int { return cmp.Compare(a.token.Load(), b.token.Load()) })
	for i := 1; i < len(held); i++ {
		was, is := held[i-1], held[i]
		assert.Less(s.t, was.token.Load(), is.token.Load())
		assert.Less(s.t, was.acquired.Load(), is.acquired.Load(), "a token has fallen")
		assert.Less(s.t, was.last.Load(), is.acquired.Load(), "two believed at once")
		if i <= len(s.killed) {
			after = append(after, time.Duration(is.acquired.Load()-s.killed[i-1]))
		}
	}
	slices.Sort(after)
	return after
}

func percentile(of []time.Duration, p int) time.Duration {
	if len(of) == 0 {
		return 0
	}
	return of[min(len(of)*p/100, len(of)-1)].Round(time.Millisecond)
}

// reaped reclaims in dir as pawl reap does, until the test's end.
func reaped(t testing.TB, endpoints []string, dir string) {
	t.Helper()
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: endpoints})
	require.NoError(t, err)
	host, err := hooks.HostOf(c)
	require.NoError(t, err)
	r := &reclaim.Reclaimer{Dir: open(t, dir), Host: host, Refused: func(name string, err error) { assert.NoError(t, err, name) }}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.Run(ctx, func() { close(ready) }) }() // ends with ctx
	<-ready
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
	})
}

// kills are how many holders are killed: of each test here a quarter.
var kills = testscale.Of(60, 10000)

// No lease of theirs expires within the test, so each change of holder is a reclaim.
// rule: RC2
func TestAStandbyHoldsOnceTheHolderIsKilledAndNobodyElse(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Start(t).Endpoints()
	for _, side := range []string{"one", "two"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			n := kills / 4
			s := newSuccession(t, endpoints, side, n+1, testscale.Seed(t))
			dirs := []string{newPath(t), newPath(t)}
			for _, dir := range dirs {
				reaped(t, endpoints, dir)
			}
			holder := s.begin(dirs[0])
			holder.said("held")
			for i := range n {
				standby := s.begin(dirs[(i+1)%2])
				s.order.Dir = dirs[i%2]
				s.kill(holder)
				standby.said("held")
				holder.dies()
				holder = standby
			}
			after := s.judge()
			require.Len(t, after, n)
			t.Logf("%d kills, %d stops; a standby held after %v, p99 %v", n, s.stops, percentile(after, 50), percentile(after, 99))
		})
	}
}

// rule: RC2
func TestAWorkerThatIsStartedAgainHoldsAtOnceAndNobodyElse(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Start(t).Endpoints()
	for _, side := range []string{"one", "two"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			n := kills / 4
			s := newSuccession(t, endpoints, side, n+1, testscale.Seed(t))
			dir := newPath(t)
			holder := s.begin(dir)
			holder.said("held")
			for range n {
				s.kill(holder)
				holder.dies() // as a supervisor sees it
				next := s.begin(dir)
				next.said("held")
				holder = next
			}
			after := s.judge()
			require.Len(t, after, n)
			t.Logf("%d kills, %d stops; a restarted worker held after %v, p99 %v, its start included", n, s.stops, percentile(after, 50), percentile(after, 99))
		})
	}
}

// succeed kills n holders, each of which writes, and before each calls killing.
func (s *succession) succeed(n int, killing func()) {
	s.t.Helper()
	dir := newPath(s.t)
	reaped(s.t, s.order.Endpoints, dir)
	holder := s.begin(dir)
	holder.said("held")
	for range n {
		next := s.begin(dir)
		killing()
		s.killed = append(s.killed, now())
		holder.signal(unix.SIGKILL)
		next.said("held")
		holder.dies()
		holder = next
	}
	s.judge()
}
