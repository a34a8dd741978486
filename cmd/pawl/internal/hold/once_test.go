package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/lock"
)

func TestOnceTakesATimeOrRoundsNowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which begins at midnight UTC on Saturday, 2000-01-01
		time.Sleep(27*time.Hour + 44*time.Minute + 59*time.Second + 7)
		for text, want := range map[string]string{
			"2026-01-02T03:00:00Z":        "2026-01-02T03:00:00Z",
			"2026-01-02T03:00:00.5+01:00": "2026-01-02T02:00:00.5Z",
			"now/1":                       "2000-01-02T03:44:59Z",
			"now/90":                      "2000-01-02T03:43:30Z",
			"now/5m":                      "2000-01-02T03:40:00Z",
			"now/1h":                      "2000-01-02T03:00:00Z",
			"now/24h":                     "2000-01-02T00:00:00Z",
			"now/1d":                      "2000-01-02T00:00:00Z",
			"now/7d":                      "1999-12-27T00:00:00Z",
		} {
			var f firing
			require.NoError(t, f.Set(text), text)
			assert.Equal(t, want, f.UTC().Format(time.RFC3339Nano), text)
		}
		for _, text := range []string{
			"", "now", "now/", "now/0", "now/-1m", "now/0d", "now/-1d", "now/d", "now/1.5d", "now/200000d", "now/1w", "5m", "2026-01-02",
			"2026-01-02T03:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00",
		} {
			var f firing
			assert.Error(t, f.Set(text), text)
		}
	})
}

func TestTheLockIsKeptForAtLeastItsTimeUnlessASignalOrALossEndsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		signal unix.Signal
		lost   bool
		want   time.Duration
	}{
		"nothing happens":       {want: 50 * time.Minute},
		"a signal":              {signal: unix.SIGTERM, want: time.Minute},
		"one that ends nothing": {signal: unix.SIGWINCH, want: 50 * time.Minute},
		"the loss":              {lost: true, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := lockOptions{atLeast: seconds(time.Hour)}
				sigs, lost := make(chan supervise.Signal, 1), make(chan struct{})
				began := time.Now()
				time.Sleep(10 * time.Minute) // the command
				time.AfterFunc(time.Minute, func() {
					if tt.signal != 0 {
						sigs <- supervise.Signal{Number: tt.signal}
					}
					if tt.lost {
						close(lost)
					}
				})
				ended := time.Now()
				o.keep(&supervise.Signals{C: sigs}, lost, began)
				assert.Equal(t, tt.want, time.Since(ended))
				o.keep(&supervise.Signals{C: sigs}, lost, began.Add(-time.Hour))
				assert.Equal(t, tt.want, time.Since(ended), "the command took longer")
			})
		})
	}
}

func TestWhatTheGraceIsUnderMaxHold(t *testing.T) {
	var o lockOptions
	assert.Equal(t, 15*time.Second, o.longest(15*time.Second))
	o.maxHold = seconds(6 * time.Second)
	assert.Equal(t, 6*time.Second, o.longest(15*time.Second))
	assert.Equal(t, 3*time.Second, o.longest(3*time.Second))
	o.grace = noGrace
	assert.NoError(t, o.checkOnce(nil, nil))
	o.grace = seconds(time.Second)
	assert.NoError(t, o.checkOnce(nil, nil))
	o.grace++
	assert.Equal(t, 122, cli.CodeOf(o.checkOnce(nil, nil)))
}

func TestACommandThatEndsForMaxHoldIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inmemory.New(t, etcdfake.Options{})
		s, began := w.Session("ann"), time.Now()
		o := &lockOptions{maxHold: seconds(time.Second)}
		assert.EqualError(t, o.overheld(supervise.ErrRunningOut, s, began), "the command was ended: it held the lock for as long as --max-hold allows, 1s")
		assert.Equal(t, lock.ErrKeyDeleted, o.overheld(lock.ErrKeyDeleted, s, began), "another cause")
		o.maxHold = seconds(time.Hour)
		assert.Equal(t, supervise.ErrRunningOut, o.overheld(supervise.ErrRunningOut, s, began), "renewals were missing")
	})
}

// While the command lives nobody else acquires the name, even if this process notices late that
// --max-hold, or the session, has ended.
func TestKeysStayWhileTheCommandLives(t *testing.T) {
	for name, end := range map[string]func(h *lock.Held){
		"--max-hold":            func(*lock.Held) {},
		"the session is closed": func(h *lock.Held) { hooks.SessionOf(h.Session()).CloseInBackground() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inmemory.New(t, etcdfake.Options{})
				s, other := w.Session("ann"), w.Session("bob")
				h, err := lock.New(s, "a", lock.Options{MaxHold: time.Second}).Acquire(t.Context())
				require.NoError(t, err)
				done := holding{h}.Keep()
				end(h)
				time.Sleep(5 * time.Second) // too long, and less than the TTL
				require.ErrorIs(t, h.Err(), lock.ErrLost)
				_, err = lock.New(other, "a", lock.Options{}).TryAcquire(t.Context())
				require.ErrorIs(t, err, lock.ErrBusy)
				done()
				next, err := lock.New(other, "a", lock.Options{}).Acquire(t.Context())
				require.NoError(t, err)
				assert.NoError(t, next.Release(t.Context()))
			})
		})
	}
}

func TestTheProcessOfPidHasTheGraceBeforeOthersGetTheLock(t *testing.T) {
	for name, tt := range map[string]struct{ ends, want time.Duration }{
		"it ends":     {100 * time.Millisecond, 1100 * time.Millisecond},
		"it does not": {time.Hour, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inmemory.New(t, etcdfake.Options{})
				began := time.Now()
				h, err := lock.New(w.Session("ann"), "a", lock.Options{MaxHold: time.Second}).Acquire(t.Context())
				require.NoError(t, err)
				ended := make(chan struct{})
				o := lockOptions{maxHold: seconds(time.Second), commonOptions: commonOptions{grace: seconds(200 * time.Millisecond)}}
				o.user = &process{ended, func() { time.AfterFunc(tt.ends, func() { close(ended) }) }}
				go func() { // ends with the loss
					assert.Equal(t, cli.ExitLost, cli.CodeOf(o.untilSignal(&supervise.Signals{}, heldLock{h}, reporter{})))
				}()
				next, err := lock.New(w.Session("bob"), "a", lock.Options{}).Acquire(t.Context())
				require.NoError(t, err)
				assert.WithinDuration(t, began.Add(tt.want), time.Now(), 50*time.Millisecond)
				assert.NoError(t, next.Release(t.Context()))
			})
		})
	}
}
