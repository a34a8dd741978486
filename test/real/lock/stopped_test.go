//go:build unix

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// TestRoleSleeper is not a test: it is a holder that is stopped while it works,
// and says what its first check of the lock shows when it goes on.
func TestRoleSleeper(t *testing.T) {
	if os.Getenv(role) != "sleeper" {
		t.Skip("the role of a child process")
	}
	ctx := context.Background()
	c := dial(t, os.Getenv(endpointOf))
	s, err := c.NewSession(ctx, lease.Options{TTL: lease.MinTTL})
	require.NoError(t, err)
	h, err := lock.New(s, "stopped", lock.Options{}).Acquire(ctx)
	require.NoError(t, err)
	fmt.Printf("holds %d\n", h.Token())
	for last := time.Now(); ; {
		now := time.Now()
		if err := h.Err(); err != nil || now.Sub(last) > s.TTL() { // nil means not reported
			fmt.Printf("woke %v\n", err)
			break
		}
		last = now
	}
	_, err = c.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("late", nil)}})
	fmt.Printf("fenced %v\n", errors.Is(err, kv.ErrFenced))
}

func init() {
	ownGroup = func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
}

// Hazard S22, rule T3: a process that was stopped for longer than its TTL sees at
// its first check, before anything was received, that its lock is lost; another
// has it by then.
// rule: T3
func TestAStoppedHolderFindsItsLockLostAtItsFirstCall(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	sleeper := child(t, "sleeper", endpointOf+"="+endpoint)
	t.Cleanup(func() { _ = sleeper.Kill() })
	token, err := strconv.ParseInt(sleeper.said("holds"), 10, 64)
	require.NoError(t, err)
	require.NoError(t, sleeper.Signal(syscall.SIGSTOP))
	ctx := context.Background()
	s, err := dial(t, endpoint).Session(ctx)
	require.NoError(t, err)
	next, err := lock.New(s, "stopped", lock.Options{}).Acquire(ctx)
	require.NoError(t, err)
	assert.Greater(t, next.Token(), fencing.Token(token))
	require.NoError(t, sleeper.Signal(syscall.SIGCONT))
	woke := sleeper.said("woke")
	assert.Contains(t, woke, lock.ErrLost.Error()) // by its clock, or by what had arrived meanwhile, whichever is looked at first
	t.Log(woke)
	assert.Equal(t, "true", sleeper.said("fenced"), "a late write")
	require.NoError(t, next.Err())
	require.NoError(t, next.Release(ctx))
}
