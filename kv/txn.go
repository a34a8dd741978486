package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/observe"
)

// The server answers within 7 s by default. A try lasts longer, so that an outcome is seldom unknown
// only because the client did not wait.
const (
	tryBound   = 8 * time.Second
	totalBound = 20 * time.Second
)

// Client makes transactions. It comes from pawl.Client.KV, and is safe for concurrent use.
type Client struct{ c *cluster.Cluster }

func init() {
	hooks.KVClient = func(c *cluster.Cluster) any { return &Client{c} }
	hooks.KVGuard = func(key string, token fencing.Token, holder hooks.Holder) any {
		return Guard{key: key, token: token, holder: holder}
	}
}

// Txn is a transaction. If all Guards hold, Then applies if all of If hold, and Else applies otherwise.
type Txn struct {
	Guards []Guard // all must hold, or nothing applies and the error matches ErrFenced
	If     []Cond  // all must hold for Then; true if empty
	Then   []Op    // in order; a key can be put once, and not also deleted
	Else   []Op    // likewise; must be empty without If
}

// Result is a transaction that applied.
type Result struct {
	OK       bool    // If was true and Then applied; otherwise Else did
	Revision int64   // of the cluster: that of the writes, if there were any
	Gets     []Entry // one for each Get that ran, in order, and what each GetPrefix found in its position
	More     bool    // a GetPrefix left out keys beyond its limit
}

// Entry is what a read found.
type Entry struct {
	Key         string
	Value       []byte
	ModRevision int64 // 0 if the key did not exist
}

// Txn sends t and waits for the answer until ctx ends, and for at most 20 s.
//
// If the error is nil, t was applied: Then if Result.OK, and Else otherwise. If the error matches
// ErrFenced, a guard failed, and nothing was applied. The error names the lock's key, and what was
// found instead. If it matches ErrUnknown, t may have been applied, or may still be. This is so when
// ctx ends after t was sent. With any other error nothing was applied, because of wrong arguments, more
// operations than the cluster's --max-txn-ops, no permission, or because no member could be reached.
//
// A t that writes is sent again only if it has certainly not been applied. Txn does not retain t.
func (c *Client) Txn(ctx context.Context, t Txn) (Result, error) {
	res, err := c.txn(ctx, t)
	if err != nil {
		c.notify(ctx, err)
		return Result{}, fmt.Errorf("kv: txn: %w", err)
	}
	return res, nil
}

// notify notifies the client's observer if err is a refusal by a guard.
func (c *Client) notify(ctx context.Context, err error) {
	if errors.Is(err, ErrFenced) {
		c.c.Notifier().NewSource().Now(context.WithoutCancel(ctx), observe.WriteFenced{Err: err})
	}
}

func (c *Client) txn(ctx context.Context, t Txn) (Result, error) {
	if err := c.usable(ctx); err != nil {
		return Result{}, err
	}
	if err := t.check(); err != nil {
		return Result{}, err
	}
	for _, g := range t.Guards {
		if err := g.lost(); err != nil {
			return Result{}, err
		}
	}
	for _, ops := range [][]Op{t.Then, t.Else} {
		for _, op := range ops {
			if err := op.ended(); err != nil {
				return Result{}, err
			}
		}
	}
	r := cluster.Request{Op: "transaction", Repeat: cluster.IfNotApplied, PerTry: tryBound, Total: totalBound}
	answer, err := c.c.Txn(ctx, r, t.request())
	if err != nil {
		return Result{}, t.explain(err)
	}
	return t.result(answer)
}

// check refuses invalid arguments, before anything is sent.
func (t *Txn) check() error {
	if len(t.Guards)+len(t.If)+len(t.Then)+len(t.Else) == 0 {
		return errors.New("it is empty")
	}
	if len(t.If) == 0 && len(t.Else) > 0 {
		return errors.New("an Else without If would never apply")
	}
	for i, g := range t.Guards {
		if err := g.check(); err != nil {
			return fmt.Errorf("guard %d: %w", i, err)
		}
	}
	for i, cond := range t.If {
		if err := cond.check(); err != nil {
			return fmt.Errorf("condition %d: %w", i, err)
		}
	}
	if err := checkOps("Then", t.Then); err != nil {
		return err
	}
	return checkOps("Else", t.Else)
}

// explain adds what the caller can do about it.
func (t *Txn) explain(err error) error {
	if cluster.IsTooManyOps(err) {
		return fmt.Errorf("%d guards, %d conditions and %d and %d operations are more than the cluster's --max-txn-ops allows (128, if not set): %w",
			len(t.Guards), len(t.If), len(t.Then), len(t.Else), err)
	}
	return err
}
