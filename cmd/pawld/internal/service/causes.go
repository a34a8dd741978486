package service

import (
	"errors"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// what an error of an acquisition means.
type meaning int

const (
	passing meaning = iota // it is tried again
	refusal                // the request cannot succeed
	loss                   // the position was lost
)

func final(err error) meaning {
	switch {
	case errors.Is(err, lock.ErrBusy), errors.Is(err, elect.ErrBusy), errors.Is(err, pawl.ErrTokenFloor), cluster.IsPermissionDenied(err):
		return refusal
	case errors.Is(err, lock.ErrKeyDeleted), errors.Is(err, lock.ErrKeyOverwritten), errors.Is(err, pawl.ErrClusterChanged):
		return loss
	}
	return passing
}

// A Why is why a lock has ended, as the API names it.
type Why string

// causes are the errors for each Why, for Restore. The first match counts.
var causes = []struct {
	why Why
	err error
}{
	{"NOT_HELD", registry.ErrNotHeld},
	{"MAX_HOLD", registry.ErrMaxHold},
	{"STALLED", lock.ErrStalled},
	{"EXPIRED", registry.ErrExpired},
	{"KEY_DELETED", lock.ErrKeyDeleted},
	{"KEY_OVERWRITTEN", lock.ErrKeyOverwritten},
	{"CLUSTER_CHANGED", pawl.ErrClusterChanged},
	{"REVOKED", lease.ErrRevoked},
	{"EXPIRED", lease.ErrExpired},
	{"EXPIRED", lease.ErrClosed},
}

// WhyOf is the Why of an error, or "" for nil.
func WhyOf(err error) Why {
	if err == nil {
		return ""
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.why
		}
	}
	return "REVOKED"
}

func (w Why) cause() error {
	for _, c := range causes {
		if c.why == w {
			return c.err
		}
	}
	return nil
}
