package cause_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/cause"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func TestEachCauseHasAWordOfItsOwn(t *testing.T) {
	for want, err := range map[string]error{
		"":                nil,
		"expired":         lease.ErrExpired,
		"revoked":         lease.ErrRevoked,
		"closed":          lease.ErrClosed,
		"cluster_changed": pawl.ErrClusterChanged,
		"key_deleted":     lock.ErrKeyDeleted,
		"key_overwritten": lock.ErrKeyOverwritten,
		"max_hold":        lock.ErrMaxHold,
		"stalled":         lock.ErrStalled,
		"overrun":         elect.ErrOverrun,
		"busy":            lock.ErrBusy,
		"token_floor":     pawl.ErrTokenFloor,
		"timeout":         context.DeadlineExceeded,
		"canceled":        context.Canceled,
		"other":           errors.New("permission denied"),
	} {
		assert.Equal(t, want, cause.Of(err))
		if err != nil {
			assert.Equal(t, want, cause.Of(fmt.Errorf("%w: wrapped", err)))
		}
	}
	assert.Equal(t, "expired", cause.Of(errors.Join(context.Canceled, lease.ErrExpired)), "why, and not what it did")
}

func TestEachLossHasAWordAmongTheLosses(t *testing.T) {
	for _, err := range []error{
		lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed, pawl.ErrClusterChanged, lock.ErrKeyDeleted, lock.ErrKeyOverwritten,
		lock.ErrMaxHold, lock.ErrStalled, elect.ErrOverrun, errors.New("permission denied"),
	} {
		assert.Contains(t, cause.Losses(), cause.Of(fmt.Errorf("%w: %w", lock.ErrLost, err)))
	}
}
