package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A resumable is a mode in which one process acquires and another continues.
type resumable struct {
	acquire func(ctx context.Context, s *pawl.Session) (h *lock.Held, keys []string, err error)
	resume  func(ctx context.Context, s *pawl.Session, keys []string, t fencing.Token) (h *lock.Held, guards []kv.Guard, err error)
	wrong   func(ctx context.Context, s *pawl.Session, keys []string, t fencing.Token) error // resumes it as something else
	rival   string                                                                           // a name on which an exclusive lock waits for it
}

func setOfThree(s *pawl.Session) *lock.Multi {
	return lock.NewMulti(s, lock.Options{}, lock.Exclusive("resumed/a"), lock.Shared("resumed/b"), lock.Exclusive("resumed/c"))
}

var resumables = map[string]resumable{
	"shared": {
		func(ctx context.Context, s *pawl.Session) (*lock.Held, []string, error) {
			h, err := lock.New(s, "resumed/name", lock.Options{}).AcquireShared(ctx)
			return h, []string{h.Key()}, err
		},
		func(ctx context.Context, s *pawl.Session, keys []string, t fencing.Token) (*lock.Held, []kv.Guard, error) {
			h, err := lock.New(s, "resumed/name", lock.Options{}).Resume(ctx, keys[0], t)
			if err == nil && !h.Shared() {
				err = errors.New("resumed, and not as shared")
			}
			return h, []kv.Guard{h.Guard()}, err
		},
		func(ctx context.Context, s *pawl.Session, keys []string, t fencing.Token) error {
			_, err := lock.NewSemaphore(s, "resumed/name", 1, lock.Options{}).Resume(ctx, keys[0], t)
			return err
		},
		"resumed/name",
	},
	"set": {
		func(ctx context.Context, s *pawl.Session) (*lock.Held, []string, error) {
			h, err := setOfThree(s).Acquire(ctx)
			return h, h.Keys(), err
		},
		func(ctx context.Context, s *pawl.Session, keys []string, t fencing.Token) (*lock.Held, []kv.Guard, error) {
			h, err := setOfThree(s).Resume(ctx, keys, t)
			return h, h.Guards(), err
		},
		func(ctx context.Context, s *pawl.Session, keys []string, t fencing.Token) error {
			_, err := lock.New(s, "resumed/a", lock.Options{}).Resume(ctx, keys[0], t)
			return err
		},
		"resumed/b",
	},
}

// modeOf is the environment variable that names a holder's mode.
const modeOf = "PAWL_LOCK_TEST_MODE"

// TestRoleHolder is not a test: it is a process that acquires what its mode says, hands its
// session over, and ends.
func TestRoleHolder(t *testing.T) {
	if os.Getenv(role) != "holder" {
		t.Skip("the role of a child process")
	}
	mode := resumables[os.Getenv(modeOf)]
	ctx := context.Background()
	s, err := dial(t, os.Getenv(endpointOf)).NewSession(ctx, lease.Options{TTL: 20 * time.Second})
	require.NoError(t, err)
	h, keys, err := mode.acquire(ctx, s)
	require.NoError(t, err)
	fmt.Printf("token %d\nkeys %s\n", h.Token(), strings.Join(keys, " "))
	handOver(t, s)
}

// N6, RW5, ML8: a shared lock and a set outlive the process that acquired them: its successor
// has them with their token, in their mode and as a whole, and who waits for them goes on
// waiting until they are released.
// rule: N6
func TestSharedLocksAndSetsAreResumedByAnotherProcessOnARealServer(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx := context.Background()
	for name, mode := range resumables {
		t.Run(name, func(t *testing.T) {
			first := child(t, "holder", endpointOf+"="+endpoint, modeOf+"="+name)
			var token fencing.Token
			_, err := fmt.Sscan(first.said("token"), &token)
			require.NoError(t, err)
			keys := strings.Fields(first.said("keys"))
			handle := first.handedOver(t)

			other, err := dial(t, endpoint).Session(ctx)
			require.NoError(t, err)
			rival := lock.New(other, mode.rival, lock.Options{})
			_, err = rival.TryAcquire(ctx)
			require.ErrorIs(t, err, lock.ErrBusy)
			won := make(chan *lock.Held, 1)
			go func() { // ends when the name is free
				h, err := rival.Acquire(ctx)
				assert.NoError(t, err)
				won <- h
			}()

			c := dial(t, endpoint)
			next, err := c.NewSession(ctx, lease.Options{Resume: handle})
			require.NoError(t, err)
			_, _, err = mode.resume(ctx, next, keys, token-1)
			require.ErrorIs(t, err, lock.ErrLost, "never this one's token")
			err = mode.wrong(ctx, next, keys, token)
			require.Error(t, err)
			require.NotErrorIs(t, err, lock.ErrLost, "it stays as it is")
			h, guards, err := mode.resume(ctx, next, keys, token)
			require.NoError(t, err)
			assert.Equal(t, token, h.Token())
			require.NoError(t, h.Err())
			require.NoError(t, h.Confirm(ctx))
			_, _, err = mode.resume(ctx, next, keys, token)
			require.ErrorContains(t, err, "resumed, in this process")
			write := func() error {
				_, err := c.KV().Txn(ctx, kv.Txn{Guards: guards, Then: []kv.Op{kv.Put("resumed's", nil)}})
				return err
			}
			require.Len(t, guards, len(keys))
			require.NoError(t, write())
			require.Empty(t, won, "it waits")

			require.NoError(t, h.Release(ctx))
			got := <-won
			require.NotNil(t, got)
			assert.Greater(t, got.Token(), token)
			require.ErrorIs(t, write(), kv.ErrFenced)
			require.NoError(t, got.Release(ctx))
			require.NoError(t, next.Close(ctx))
		})
	}
}
