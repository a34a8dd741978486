// Package cause names errors with words that metrics and traces use as labels. There are few
// words, and they never change.
package cause

import (
	"context"
	"errors"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// words are in the order in which they are tried. Why a lock was lost or not acquired comes before what
// that did to a context.
var words = []struct {
	err  error
	word string
}{
	{lease.ErrExpired, "expired"},
	{lease.ErrRevoked, "revoked"},
	{lease.ErrClosed, "closed"},
	{pawl.ErrClusterChanged, "cluster_changed"},
	{lock.ErrKeyDeleted, "key_deleted"},
	{lock.ErrKeyOverwritten, "key_overwritten"},
	{lock.ErrMaxHold, "max_hold"},
	{lock.ErrStalled, "stalled"},
	{elect.ErrOverrun, "overrun"},
	{lock.ErrBusy, "busy"},
	{pawl.ErrTokenFloor, "token_floor"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// Of returns a word for err: "expired", "revoked", "closed", "cluster_changed", "key_deleted",
// "key_overwritten", "max_hold", "stalled", "overrun", "busy", "token_floor", "timeout", "canceled", or
// "other". It returns "" for nil.
func Of(err error) string {
	if err == nil {
		return ""
	}
	for _, w := range words {
		if errors.Is(err, w.err) {
			return w.word
		}
	}
	return "other"
}

// Losses returns the words that Of uses for the loss of a lock or a term.
func Losses() []string {
	return []string{"expired", "revoked", "closed", "cluster_changed", "key_deleted", "key_overwritten", "max_hold", "stalled", "overrun", "other"}
}
