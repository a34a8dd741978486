package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// holding is a script that holds a lock until it ends.
const holding = `exec 9< <(exec pawl lock --pid $$ rest); read -r -u 9 line || exit 1; echo "$line"; while :; do sleep 0.05; done`

func TestALockIsHeldForTheRestOfAScriptHoweverItEnds(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		p := beginWith(t, s.Addr(), "bash", "-c", holding)
		assert.Contains(t, next(t, p.lines()), `held "rest"`)
		assert.True(t, busy(t, s, "rest"))
		require.NoError(t, p.cmd.Process.Signal(sig))
		eventually(t, func() bool { return !busy(t, s, "rest") }, "the lock outlives the script")
	}
}

func TestAScriptIsSentTermWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := beginWith(t, s.Addr(), "bash", "-c", `trap 'echo TERM; exit 9' TERM; `+holding)
	out := p.lines()
	assert.Contains(t, next(t, out), `held "rest"`)
	revoke(t, s)
	assert.Equal(t, "TERM", next(t, out))
	assert.Equal(t, 9, p.code(t))
}

func TestWhatTheTerminalSendsToAScriptDoesNotEndItsLock(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := beginWith(t, s.Addr(), "bash", "-c", `exec 9< <(exec pawl lock --ttl 9 --pid $$ rest); read -r -u 9 line || exit 1; echo $!; while :; do sleep 0.05; done`)
	pawl := pid(t, p.lines())
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} { // a script may handle these, and go on
		require.NoError(t, unix.Kill(pawl, sig))
	}
	staysBusy(t, s, "rest")
	require.NoError(t, unix.Kill(pawl, unix.SIGTERM))
	eventually(t, func() bool { return !busy(t, s, "rest") }, "TERM does not end it")
	assert.True(t, runs(p.cmd.Process.Pid))
}
