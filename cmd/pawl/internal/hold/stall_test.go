package hold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// stalling are options with a --stall, in a bubble, and the file of a command.
func stalling(t *testing.T, stall, grace time.Duration) (o *lockOptions, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "progress")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	t.Setenv(progressVariable, path)
	return &lockOptions{permits: noPermits, commonOptions: commonOptions{stall: seconds(stall), grace: seconds(grace)}}, path
}

// underStall holds a lock as pawl lock --stall 30 --grace 2 does, and calls f beside the command, which begins now.
func underStall(t *testing.T, f func(h *lock.Held, p *progress, path string)) {
	o, path := stalling(t, 30*time.Second, 2*time.Second)
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{})
		held, err := o.take(t.Context(), w.Session("ann"), []string{"a"}, false)
		require.NoError(t, err)
		time.Sleep(10 * time.Second) // before the command begins
		p := o.watchProgress("work", held.Progress)
		f(held.Held, p, path)
		p.ended()
	})
}

// touchAs gives the file a time, as a clock that is anywhere does.
func touchAs(t *testing.T, path string, at time.Time) {
	t.Helper()
	require.NoError(t, os.Chtimes(path, at, at))
}

// The command is ended a --stall after it began, or last touched the file, which a look finds within a second.
// What the file's time is does not matter, only that it changes.
//
// rule: H6
func TestOnlyAChangeOfTheFileIsProgress(t *testing.T) {
	changes := map[string]func(t *testing.T, path string, n int){
		"its time grows":            func(t *testing.T, path string, n int) { touchAs(t, path, time.Unix(int64(1000+n), 0)) },
		"its time goes back":        func(t *testing.T, path string, n int) { touchAs(t, path, time.Unix(int64(1000-n), 0)) },
		"its time is in the future": func(t *testing.T, path string, n int) { touchAs(t, path, time.Unix(int64(1<<34+n), 0)) },
		"it grows": func(t *testing.T, path string, n int) {
			at := time.Unix(1000, 0)
			require.NoError(t, os.WriteFile(path, make([]byte, n+1), 0o600))
			touchAs(t, path, at)
		},
		"it is made again": func(t *testing.T, path string, n int) {
			require.NoError(t, os.WriteFile(path+"new", nil, 0o600))
			touchAs(t, path+"new", time.Unix(1000, 0))
			require.NoError(t, os.Rename(path+"new", path))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			underStall(t, func(h *lock.Held, p *progress, path string) {
				for n := range 20 {
					time.Sleep(20 * time.Second)
					require.NoError(t, h.Err())
					change(t, path, n)
				}
				touched := time.Now()
				<-h.Done()
				lasted := time.Since(touched) - supervise.Notice(2*time.Second)
				assert.GreaterOrEqual(t, lasted, 30*time.Second)
				assert.LessOrEqual(t, lasted, 31*time.Second)
				assert.ErrorIs(t, h.Err(), lock.ErrStalled)
			})
		})
	}
	for name, nothing := range map[string]func(path string){
		"it is only read": func(path string) { _, _ = os.ReadFile(path) },
		"it is gone":      func(path string) { _ = os.Remove(path) },
		"its directory":   func(path string) { _ = os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			underStall(t, func(h *lock.Held, p *progress, path string) {
				touchAs(t, path, time.Now().Add(time.Hour)) // before the first look
				began := time.Now()
				time.Sleep(10 * time.Second)
				nothing(path)
				<-h.Done()
				assert.LessOrEqual(t, time.Since(began), 33*time.Second)
				assert.ErrorIs(t, h.Err(), lock.ErrStalled)
			})
		})
	}
}

// A command that has never touched the file is told so, and one that has when it did last. Neither is said of
// one that was ended for another reason.
//
// rule: H6
func TestACommandThatStallsIsToldSo(t *testing.T) {
	underStall(t, func(h *lock.Held, p *progress, path string) {
		far := time.Now().Add(time.Hour)
		notice := supervise.Notice(2 * time.Second)
		time.Sleep(30*time.Second - 1)
		assert.Equal(t, supervise.ErrRunningOut, p.stalls(supervise.ErrRunningOut, notice, far), "it has not stalled yet")
		time.Sleep(time.Nanosecond)
		err := p.stalls(fmt.Errorf("x: %w", supervise.ErrRunningOut), notice, far)
		assert.EqualError(t, err, "work has not touched PAWL_PROGRESS for 30s, and was ended")
		assert.Equal(t, 120, cli.CodeOf(err))
		assert.True(t, cli.WasEnded(err))
		assert.Equal(t, supervise.ErrRunningOut, p.stalls(supervise.ErrRunningOut, notice, time.Now()), "renewals were missing, or --max-hold was over")
		assert.Equal(t, lock.ErrKeyDeleted, p.stalls(lock.ErrKeyDeleted, notice, far))
		assert.NoError(t, p.stalls(nil, notice, far))
		assert.Equal(t, 120, cli.CodeOf(p.stalls(lock.ErrStalled, notice, time.Time{})))
	})
	underStall(t, func(h *lock.Held, p *progress, path string) {
		touchAs(t, path, time.Unix(0, 0))
		time.Sleep(40 * time.Second)
		err := p.stalls(supervise.ErrRunningOut, 2*time.Second, time.Now().Add(time.Hour))
		assert.EqualError(t, err, "work has stalled, and was ended: it last touched PAWL_PROGRESS 30s ago")
		assert.Equal(t, 120, cli.CodeOf(err))
	})
	var none *progress
	none.ended()
	assert.Nil(t, none.whileStopped())
	assert.Equal(t, supervise.ErrRunningOut, none.stalls(supervise.ErrRunningOut, 0, time.Time{}))
}

// The file is in a directory that only the user may enter, and both go with the process that made them.
func TestTheFileIsTheUsersAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(progressVariable, "another's")
	remove, err := makeProgressFile()
	require.NoError(t, err)
	path := os.Getenv(progressVariable)
	for at, mode := range map[string]os.FileMode{filepath.Dir(path): os.ModeDir | 0o700, path: 0o600} {
		is, err := os.Stat(at)
		require.NoError(t, err)
		assert.Equal(t, mode, is.Mode())
	}
	remove()
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
	t.Setenv("TMPDIR", filepath.Join(os.TempDir(), "none"))
	_, err = makeProgressFile()
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// A candidate whose command stalls campaigns again later, and later each time, so that others lead.
//
// rule: H6
func TestACandidateThatStallsRestsLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := &candidate{o: new(electOptions), name: "chief", say: reporter{&out, false}, pause: backoff.Backoff{First: firstRest, Most: mostRest}}
		stalled := cli.Exit(cli.ExitStalled, errors.New("it has stalled"))
		var waits []time.Duration
		for range 10 {
			c.rests(stalled, time.Minute)
			waits = append(waits, time.Until(c.rested))
		}
		for i, wait := range waits {
			most := min(firstRest<<i, mostRest)
			assert.LessOrEqual(t, wait, most)
			assert.GreaterOrEqual(t, wait, most/2)
		}
		assert.Contains(t, out.String(), `stalled "chief": it has stalled; it campaigns again in `)
		c.rests(stalled, time.Hour)
		assert.LessOrEqual(t, time.Until(c.rested), firstRest, "it was well for long")
		c.rests(stalled, time.Minute)
		c.rests(cli.Exit(cli.ExitLost, lock.ErrLost), time.Minute)
		c.rests(stalled, time.Minute)
		assert.LessOrEqual(t, time.Until(c.rested), firstRest, "it did not stall each time")
	})
}

// While it rests another candidate leads, and it leads again after that.
func TestACandidateThatRestsDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{})
		c := &candidate{o: new(electOptions), name: "chief", value: "a", client: w.Client(), rested: time.Now().Add(time.Minute)}
		c.o.stall = seconds(30 * time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		c.cancel = cancel
		run := make(chan error)
		go func() { run <- c.run(ctx) }()
		time.Sleep(30 * time.Second)
		t1, err := elect.New(w.Session("bob"), "chief", elect.Options{}).TryCampaign(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, t1.Resign(t.Context()))
		time.Sleep(time.Minute)
		leader, err := elect.LeaderOf(t.Context(), w.Client(), "chief", elect.Options{})
		require.NoError(t, err)
		assert.Equal(t, "a", string(leader.Value))
		cancel(nil)
		<-run
	})
}

func TestWhatStallExcludes(t *testing.T) {
	for stall, argv := range map[time.Duration][]string{time.Minute: nil, time.Second - 1: {"true"}} {
		o := commonOptions{stall: seconds(stall)}
		assert.Equal(t, cli.ExitUsage, cli.CodeOf(o.checkStall(argv)))
	}
	assert.NoError(t, (&commonOptions{}).checkStall(nil))
	assert.NoError(t, (&commonOptions{stall: seconds(time.Second)}).checkStall([]string{"true"}))
	assert.Zero(t, (&commonOptions{}).stallOf(time.Second))
	assert.Equal(t, 33*time.Second, (&commonOptions{stall: seconds(30 * time.Second)}).stallOf(3*time.Second))
	assert.Equal(t, lease.DefaultTTL/6, (&lockOptions{commonOptions: commonOptions{grace: noGrace}}).promptGrace())
}
