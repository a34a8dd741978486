package hold

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lease"
)

func TestSecondsAreNumbersOrDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"3": 3 * time.Second, "0.5": 500 * time.Millisecond, "1m": time.Minute, "0": 0} {
		var s seconds
		require.NoError(t, s.Set(text), text)
		assert.Equal(t, want, time.Duration(s), text)
	}
	for _, text := range []string{"", "x", "-1", "-1s", "NaN", "Inf", "1e300"} {
		var s seconds
		assert.Error(t, s.Set(text), text)
	}
}

func TestOurVariablesReplaceInheritedOnes(t *testing.T) {
	got := replace([]string{"A=1", "PAWL_KEY=outer", "PAWL_KEYS=outer", "PAWL_KEYSTONE=other", "B=2"}, []string{"PAWL_KEY=inner"})
	assert.Equal(t, []string{"A=1", "PAWL_KEYSTONE=other", "B=2", "PAWL_KEY=inner"}, got)
}

// A lock that --max-hold has ended, or whose key somebody deleted, leaves a session that is valid.
func TestWhatIsLeftIsRemovedForAsLongAsItWouldStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{
			10 * time.Second: 5 * time.Second,
			3 * time.Second:  3 * time.Second,
			time.Second / 2:  leastLeave,
		} {
			assert.Equal(t, want, leaveWithin(5*time.Second, time.Now().Add(left)), left)
		}
		assert.Equal(t, leastLeave, leaveWithin(5*time.Second, time.Time{}), "the session has ended")
		assert.Equal(t, time.Second/2, leaveWithin(time.Second/2, time.Time{}))
	})
}

// A request that --wait ends can return before the timer of its context has run.
func TestTheEndOfAWaitIsNoUnreachableCluster(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			o := &lockOptions{waiting: waiting{wait: seconds(time.Second), conflict: cli.ExitNotAcquired}}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errWaited)
			defer cancel()
			time.Sleep(time.Second) // until the instant of its timer, which may run after this
			err := o.withExitCode(ctx, context.DeadlineExceeded, reporter{}, func(context.Context) blocker { return blocker{name: "a"} })
			assert.Equal(t, cli.ExitNotAcquired, cli.CodeOf(err))
		})
	}
}

func TestExitCodes(t *testing.T) {
	assert.Equal(t, 0, cli.CodeOf(nil))
	assert.Equal(t, 125, cli.CodeOf(errors.New("x")))
	assert.Equal(t, 130, cli.CodeOf(fmt.Errorf("wait: %w", &supervise.Interrupted{Signal: unix.SIGINT})))
	assert.Equal(t, 123, cli.CodeOf(cli.Reach(fmt.Errorf("grant: %w", lease.ErrExpired))))
	assert.Equal(t, 122, cli.CodeOf(cli.Reach(cli.Usage("x"))))
	for _, wanted := range []error{rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision} {
		assert.Equal(t, 123, cli.CodeOf(cli.Reach(fmt.Errorf("read: %w", wanted))), "a member that wants a user says so at the first request, or at the first contact")
	}
	assert.Equal(t, 7, cli.CodeOf(commandEnd(7<<8, nil)))
	assert.Equal(t, 137, cli.CodeOf(commandEnd(9, nil)))
	assert.NoError(t, commandEnd(0, nil))
}

func TestWhyANameWasNotAcquired(t *testing.T) {
	full := fmt.Errorf("pawl: session: %w", rpctypes.ErrGRPCNoSpace)
	for want, b := range map[string]blocker{
		`not acquired within 3s: "a" is taken`:                                      {name: "a"},
		`not acquired within 3s: "a" is held by b`:                                  {name: "a", holder: "b", said: "b", failed: full},
		`not acquired within 3s: session: ` + full.Error()[len("pawl: session: "):]: {name: "a", failed: full},
	} {
		err := (&waiting{wait: seconds(3 * time.Second), conflict: cli.ExitNotAcquired}).refusal(reporter{}, false, b)
		assert.EqualError(t, err, want)
		assert.Equal(t, cli.ExitNotAcquired, cli.CodeOf(err))
		assert.Equal(t, b.failed != nil, errors.Is(err, full))
	}
}

func TestLeaseIsReadFromAKey(t *testing.T) {
	assert.Equal(t, "1b1f", leaseOf("ns/name/1b1f-12"))
	assert.Equal(t, "1b1f", leaseOf("name/1b1f"))
}

func TestNoticeForPeopleAndPrograms(t *testing.T) {
	till := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := notice{Event: "held", Name: "a", Key: "a/1-1", Token: 5, Lease: "1", TTL: 15, Deadline: &till}
	assert.Equal(t, `held "a" key=a/1-1 token=5 lease=1 ttl=15s until=03:04:05.000 unless renewed, as it is`, n.text())
	assert.Equal(t, `held "a" key="a\x1b[2J/1-1"`, notice{Event: "held", Name: "a", Key: "a\x1b[2J/1-1"}.text(), "nothing raw reaches a terminal")
	assert.Equal(t, `lost "a": gone`, notice{Event: "lost", Name: "a", Cause: "gone"}.text())
}

func TestNoticeOfAnInvalidNameIsWholeInJSON(t *testing.T) {
	var out strings.Builder
	reporter{&out, true}.say(notice{Event: "waiting", Name: "a\xff", Key: "k\xff", Value: "v\xff", Holder: "h\xff"})
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	for field, want := range map[string]string{"name": "a\xff", "key": "k\xff", "value": "v\xff", "holder": "h\xff"} {
		whole, err := base64.StdEncoding.DecodeString(got[field+"Base64"].(string))
		require.NoError(t, err)
		assert.Equal(t, want, string(whole))
	}
}

func TestASignalInTheInstantOfAnElectionStartsNoCommand(t *testing.T) {
	signals := make(chan supervise.Signal)
	ctx, cancel := context.WithCancelCause(t.Context())
	sigs := &supervise.Signals{C: signals}
	c := &candidate{o: new(electOptions), command: new(supervise.Command), sigs: sigs, cancel: cancel, rest: sigs.Listen(cancel)}
	signals <- supervise.Signal{Number: unix.SIGTERM}
	<-ctx.Done()
	assert.NoError(t, c.lead(ctx, nil), "a command without a link cannot run")
	c.rest()
	err, again := c.end(ctx, nil)
	assert.False(t, again)
	assert.Equal(t, 143, cli.CodeOf(err))
}

// pawl may forward it late, or a service manager sends it to all processes.
func TestASignalAfterTheCommandsEndDoesNotReplaceItsCode(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error // of the command
		kind elect.Kind
		want int
	}{
		"it succeeds":       {nil, elect.Resigned, 0},
		"it fails":          {cli.Exit(7, nil), elect.Resigned, 7},
		"pawl ends it":      {cli.Exit(cli.ExitLost, supervise.ErrRunningOut), elect.Resigned, 143},
		"its term was lost": {nil, elect.Lost, 143},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &candidate{o: new(electOptions), cancel: cancel}
		c.ended(tt.err)
		require.NoError(t, ctx.Err())
		c.notify(elect.Event{Kind: tt.kind})
		cancel(&supervise.Interrupted{Signal: unix.SIGTERM})
		err, again := c.end(ctx, context.Cause(ctx))
		assert.False(t, again, name)
		assert.Equal(t, tt.want, cli.CodeOf(err), name)
	}
}

// The loss may be found only when the term is resigned, long after the command has ended.
func TestASignalThatTheCommandObeyedEndsTheCandidacy(t *testing.T) {
	term := &supervise.Interrupted{Signal: unix.SIGTERM}
	for name, tt := range map[string]struct {
		asked *supervise.Interrupted
		err   error // of the command
		kind  elect.Kind
		want  int
	}{
		"it dies, and the term is lost":         {term, cli.EndedBy(unix.SIGTERM, nil), elect.Lost, 143},
		"it succeeds, and the term is lost":     {term, nil, elect.Lost, 143},
		"it is ended because of the loss":       {term, cli.Exit(cli.ExitLost, supervise.ErrRunningOut), elect.Lost, 143},
		"it was not started":                    {nil, cut(term), elect.Lost, 143},
		"it succeeds, and the term is resigned": {term, nil, elect.Resigned, 0},
		"it fails, and the term is resigned":    {term, cli.Exit(7, nil), elect.Resigned, 7},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &candidate{o: new(electOptions), cancel: cancel, asked: tt.asked}
		c.ended(tt.err)
		c.notify(elect.Event{Kind: tt.kind})
		err, again := c.end(ctx, cmp.Or(context.Cause(ctx), tt.err))
		assert.False(t, again, name)
		assert.Equal(t, tt.want, cli.CodeOf(err), name)
	}
}

func TestALockDelayIsTheSessions(t *testing.T) {
	o := commonOptions{ttl: seconds(9 * time.Second), delay: seconds(5 * time.Second), grace: noGrace}
	opts, err := o.session()
	require.NoError(t, err)
	assert.Equal(t, lease.Options{TTL: 9 * time.Second, LockDelay: 5 * time.Second}, opts)
	o.delay = seconds(24 * time.Hour)
	_, err = o.session()
	assert.ErrorContains(t, err, "Options.LockDelay is 24h0m0s, want 0 to 19h59m52.5s with a TTL of 9s")
}
