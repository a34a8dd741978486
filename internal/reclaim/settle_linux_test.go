package reclaim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// rig is an etcd in memory, and a directory.
type rig struct {
	*etcdfake.Cluster
	t    testing.TB
	dir  *Dir
	host session.Host
}

func newRig(t testing.TB, o etcdfake.Options) *rig {
	fake := etcdfake.New(o)
	t.Cleanup(fake.Close)
	r := &rig{Cluster: fake, t: t, dir: newDir(t)}
	r.host = r.newHost("ns")
	return r
}

func inBubble(t *testing.T, o etcdfake.Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, o)) })
}

// newHost is a client of another process.
func (r *rig) newHost(namespace string) session.Host {
	r.t.Helper()
	c, err := cluster.Dial(context.Background(), cluster.Config{Endpoints: r.Endpoints(), DialOptions: []grpc.DialOption{r.DialOption()}})
	require.NoError(r.t, err)
	h := session.Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Reader: session.NewReader(c), Cleanup: &cleanup.Group{}, Namespace: namespace}
	r.t.Cleanup(func() {
		h.Cleanup.Close(2 * time.Second)
		h.Watches.Close()
		require.NoError(r.t, c.Close())
	})
	return h
}

// orphan is a session whose process has died, with the file that it left and a Handle of it, which no process
// should have.
type orphan struct {
	*session.Session
	Left
	file   *File
	handle lease.Handle
}

// orphan makes one.
func (r *rig) orphan(o lease.Options) orphan {
	r.t.Helper()
	s, err := session.Grant(context.Background(), r.newHost("ns"), o)
	require.NoError(r.t, err)
	key, _ := s.Key()
	out := orphan{Session: s, Left: Left{s.Remains(), key, s.LockDelay(), "ann"}}
	out.file = publish(r.t, r.dir, out.Left)
	out.handle = s.Detach()
	return out
}

// claim returns the proof of o's death.
func (r *rig) claim(o orphan) *Claim {
	r.t.Helper()
	die(o.file)
	c, err := again(r.t, r.dir).Claim(o.file.name)
	require.NoError(r.t, err)
	return c
}

func (r *rig) files() []string {
	r.t.Helper()
	names, err := r.dir.Names()
	require.NoError(r.t, err)
	return names
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// rule: RC3
func TestAClaimIsSettledByARevocationAndLeavesNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		o := r.orphan(lease.Options{})
		r.Put("held", "", o.ID())
		after, err := r.claim(o).Settle(t.Context(), r.host, nil)
		require.NoError(t, err)
		assert.Less(t, after, time.Second)
		assert.Empty(t, r.Leases())
		assert.Empty(t, r.Keys(""))
		assert.Empty(t, r.files())
	})
}

// rule: RC4
func TestALockDelayPassesBetweenTheProofAndTheRevocation(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		const delay = 5 * time.Second
		o := r.orphan(lease.Options{LockDelay: delay})
		r.Put("held", "", o.ID())
		c := r.claim(o)
		settled := make(chan error, 1)
		go func() { // ends with the delay
			_, err := c.Settle(t.Context(), r.host, nil)
			settled <- err
		}()
		sleep(delay - time.Millisecond)
		assert.Len(t, r.Leases(), 1)
		assert.Len(t, r.Keys(""), 2)
		_, err := r.dir.Claim(o.file.name)
		require.ErrorIs(t, err, ErrAlive, "the lock stays meanwhile")
		sleep(time.Millisecond)
		require.NoError(t, <-settled)
		assert.Empty(t, r.Leases())
		assert.Empty(t, r.files())
	})
}

// rule: RC3
func TestATakeoverInTheSameInstantWinsOrIsRefused(t *testing.T) {
	won := map[bool]int{}
	for i := range 60 {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			o := r.orphan(lease.Options{})
			c, next := r.claim(o), r.newHost("ns")
			switch i % 3 { // whose request arrives first, if not both at once
			case 1:
				r.Inject(etcdfake.Rule{Method: "Txn", Times: 1, Delay: time.Millisecond})
			case 2:
				r.Inject(etcdfake.Rule{Method: "Txn", Skip: 1, Times: 1, Delay: time.Millisecond})
			}
			var both sync.WaitGroup
			var taken, settled error
			var s *session.Session
			both.Go(func() { s, taken = session.Grant(t.Context(), next, lease.Options{Resume: o.handle}) })
			both.Go(func() { _, settled = c.Settle(t.Context(), r.host, nil) })
			both.Wait()
			assert.Empty(t, r.files())
			won[taken == nil]++
			if taken == nil {
				require.ErrorIs(t, settled, lease.ErrTakenOver)
				sleep(time.Minute)
				require.NoError(t, s.Err())
				s.Detach()
				return
			}
			require.ErrorIs(t, taken, lease.ErrRevoked)
			require.NoError(t, settled)
			assert.Empty(t, r.Leases())
		})
	}
	assert.Len(t, won, 2, "%v", won)
}

// rule: RC3
func TestALeaseOfAnotherNamespaceOrClusterIsLeft(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		o := r.orphan(lease.Options{})
		_, err := r.claim(o).Settle(t.Context(), r.newHost("other"), nil)
		require.ErrorIs(t, err, ErrElsewhere)
		c, err := r.dir.Claim(o.file.name)
		require.NoError(t, err, "it is not locked")
		c.Cluster++
		_, err = c.Settle(t.Context(), r.host, nil)
		require.ErrorIs(t, err, ErrElsewhere)
		assert.Len(t, r.Leases(), 1)
		assert.Len(t, r.files(), 1)
	})
}

func TestAClusterThatIsSilentIsAskedUntilItAnswers(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		o := r.orphan(lease.Options{TTL: time.Hour})
		c := r.claim(o)
		r.BlackHole()
		var failed []error
		settled := make(chan error, 1)
		go func() { // ends once the cluster answers
			_, err := c.Settle(t.Context(), r.host, func(err error) { failed = append(failed, err) })
			settled <- err
		}()
		sleep(5 * time.Minute)
		assert.Len(t, failed, 1, "it is said once")
		r.Heal()
		require.NoError(t, <-settled)
		assert.Empty(t, r.Leases())
	})
}

// rule: RC5
func TestAClaimThatIsNotSettledIsLeftToOthers(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		o := r.orphan(lease.Options{LockDelay: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := r.claim(o).Settle(ctx, r.host, nil)
		require.ErrorIs(t, err, context.Canceled)
		refused := r.Inject(etcdfake.Rule{Method: "Txn", Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		c, err := r.dir.Claim(o.file.name)
		require.NoError(t, err)
		c.LockDelay = 0
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = c.Settle(ctx, r.host, nil)
		require.ErrorContains(t, err, "permission denied")
		refused.Lift()
		c, err = r.dir.Claim(o.file.name)
		require.NoError(t, err)
		c.LockDelay = 0
		_, err = c.Settle(t.Context(), r.host, nil)
		require.NoError(t, err)
		assert.Empty(t, r.Leases())
	})
}

// events are what a Reclaimer reports.
type events struct {
	mu        sync.Mutex
	reclaimed []int64
	refused   []string
	failing   int
	seen      chan struct{} // receives a value after each
}

func (r *rig) reclaimer() (*Reclaimer, *events) {
	return r.reclaimerOf(again(r.t, r.dir))
}

func (r *rig) reclaimerOf(d *Dir) (*Reclaimer, *events) {
	e := &events{seen: make(chan struct{}, 1000)}
	note := func(f func()) {
		e.mu.Lock()
		f()
		e.mu.Unlock()
		e.seen <- struct{}{}
	}
	return &Reclaimer{
		Dir: d, Host: r.host,
		Reclaimed: func(l Left, _ time.Duration, err error) {
			note(func() { assert.NoError(r.t, err); e.reclaimed = append(e.reclaimed, l.Lease) })
		},
		Failing: func(Left, error) { note(func() { e.failing++ }) },
		Refused: func(name string, _ error) { note(func() { e.refused = append(e.refused, name) }) },
	}, e
}

func TestASweepReclaimsWhatIsDeadAndNothingElse(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		slow := r.orphan(lease.Options{LockDelay: time.Minute})
		var dead []int64
		for range 20 {
			o := r.orphan(lease.Options{})
			die(o.file)
			dead = append(dead, o.ID())
		}
		alive := r.orphan(lease.Options{})
		die(slow.file)
		require.NoError(t, os.WriteFile(in(r.dir, "notes"), []byte("x"), 0o600))
		sweeper, seen := r.reclaimer()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.NoError(t, sweeper.Sweep(ctx))
		assert.ElementsMatch(t, dead, seen.reclaimed)
		assert.ElementsMatch(t, []string{alive.file.name, slow.file.name, "notes"}, r.files())
		assert.Len(t, r.Leases(), 2)
		require.NoError(t, sweeper.Sweep(t.Context()))
		assert.ElementsMatch(t, append(dead, slow.ID()), seen.reclaimed)
		assert.Equal(t, []string{"notes"}, seen.refused, "it is said once")
		require.NoError(t, os.RemoveAll(r.dir.path))
		require.ErrorIs(t, sweeper.Sweep(t.Context()), fs.ErrNotExist)
	})
}

// Its role may have no permission on the namespace of the lease.
func TestWhatItsUserMayNotRevokeIsLeftToOthersAndSaidOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		o := r.orphan(lease.Options{})
		die(o.file)
		refused := r.Inject(etcdfake.Rule{Method: "Txn", Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		sweeper, seen := r.reclaimer()
		for range 3 {
			before := r.Counts().Received["Txn"]
			require.NoError(t, sweeper.Sweep(t.Context()))
			assert.Equal(t, before+1, r.Counts().Received["Txn"], "each sweep tries once")
			c, err := r.dir.Claim(o.file.name)
			require.NoError(t, err, "who may revoke it has the proof")
			c.LetGo()
		}
		assert.Equal(t, 1, seen.failing)
		assert.Len(t, r.Leases(), 1)
		refused.Lift()
		require.NoError(t, sweeper.Sweep(t.Context()))
		assert.Equal(t, []int64{o.ID()}, seen.reclaimed)
		assert.Empty(t, r.files())
	})
}

// As where the guardian of a command has reclaimed it, and then lets go of the file.
func TestALeaseThatIsGoneIsNotCountedAgain(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		o := r.orphan(lease.Options{})
		require.True(t, r.Revoke(o.ID()))
		die(o.file)
		sweeper, seen := r.reclaimer()
		require.NoError(t, sweeper.Sweep(t.Context()))
		assert.Empty(t, seen.reclaimed)
		assert.Zero(t, seen.failing)
		assert.Empty(t, r.files())
	})
}

func TestADiskThatStandsStillKeepsOneWalkAndNobodyElse(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		claimed := r.claim(r.orphan(lease.Options{}))
		stands, asked := make(chan struct{}), atomic.Int32{}
		still := func(path string) {
			if path == r.dir.path {
				asked.Add(1)
				<-stands
			}
		}
		Standstill.Store(&still)
		defer Standstill.Store(nil)
		sweeper, _ := r.reclaimerOf(r.dir)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, sweeper.Sweep(ctx))
			cancel()
		}
		assert.Equal(t, int32(1), asked.Load())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		after, err := claimed.Settle(ctx, r.host, nil)
		require.ErrorIs(t, err, ErrSilent)
		assert.GreaterOrEqual(t, after, time.Duration(0), "the lease is revoked")
		assert.Empty(t, r.Leases())
		Standstill.Store(nil)
		close(stands)
		synctest.Wait()
		assert.Empty(t, r.files())
	})
}

// Outside of a bubble: inotify knows none.
func TestWhoWatchesADirectoryReclaimsAtTheDeath(t *testing.T) {
	r := newRig(t, etcdfake.Options{})
	before, after := r.orphan(lease.Options{}), r.orphan(lease.Options{})
	die(before.file)
	watch, seen := r.reclaimer()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- watch.Run(ctx, func() { close(ready) }) }() // ends with ctx
	<-ready
	<-seen.seen
	assert.Equal(t, []int64{before.ID()}, seen.reclaimed)
	die(after.file)
	<-seen.seen
	assert.Equal(t, []int64{before.ID(), after.ID()}, seen.reclaimed)
	assert.Empty(t, r.Leases())
	late := r.orphan(lease.Options{})
	die(late.file)
	<-seen.seen
	assert.Equal(t, late.ID(), seen.reclaimed[2])
	regular := r.orphan(lease.Options{})
	require.NoError(t, regular.file.Remove())
	require.NoError(t, os.WriteFile(in(r.dir, "notes"), nil, 0o600))
	<-seen.seen
	assert.Equal(t, []string{"notes"}, seen.refused)
	assert.Len(t, r.Leases(), 1)
	cancel()
	require.NoError(t, <-ended)
}

func TestAWatchEndsWithItsDirectory(t *testing.T) {
	r := newRig(t, etcdfake.Options{})
	for _, end := range []func(){
		func() { require.NoError(t, os.Rename(r.dir.path, r.dir.path+"x")) },
		func() { require.NoError(t, os.RemoveAll(r.dir.path)) },
	} {
		watch, _ := r.reclaimer()
		watch.every = time.Millisecond
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- watch.Run(t.Context(), func() { close(ready) }) }() // ends with the directory
		<-ready
		end()
		err := <-ended
		require.True(t, errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist), "%v", err)
		r.dir.path += "x"
	}
}
