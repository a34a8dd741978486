package reclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
)

// ErrElsewhere is the error of Settle for a lease of another cluster or namespace than the Host's.
var ErrElsewhere = errors.New("it is of another cluster or namespace")

// Settle waits for the lock-delay (rule RC4), has the lease revoked unless another process has taken it
// over (RC3), and removes the file (RC5). It reports the first failure to failing, which may be nil, and tries
// again until ctx ends. What this client's user may not do, it leaves to others at once. It returns how long
// ago the proof is, or less than 0 if the lease was not settled: then the file is left. Its error matches
// lease.ErrTakenOver if the lease was left to another process, and session.ErrGone if it was gone already.
func (c *Claim) Settle(ctx context.Context, host session.Host, failing func(error)) (time.Duration, error) {
	defer c.LetGo()
	if host.Cluster.ID() != c.Cluster || keys.SessionKey(host.Namespace, c.Lease) != c.Key {
		return unsettled, fmt.Errorf("%w: cluster %x, session key %q", ErrElsewhere, c.Cluster, c.Key)
	}
	if !session.AwaitInstant(ctx, c.proved.Add(c.LockDelay)) {
		return unsettled, context.Cause(ctx)
	}
	for wait := backoff.Background(); ; {
		err := c.reclaim(ctx, host)
		if err == nil || errors.Is(err, lease.ErrTakenOver) || errors.Is(err, session.ErrGone) {
			after := clock.Now().Sub(c.proved)
			stays := c.removeWithin(ctx)
			if stays != nil && errors.Is(err, session.ErrGone) {
				return after, stays // to be said
			}
			return after, errors.Join(err, stays)
		}
		if failing != nil {
			failing(err)
			failing = nil
		}
		if cluster.IsPermissionDenied(err) || host.Cluster.Err() != nil || !wait.Sleep(ctx) {
			return unsettled, err
		}
	}
}

const unsettled = -1

// removeWithin is remove, which it leaves alone if that takes longer than ctx lasts.
func (c *Claim) removeWithin(ctx context.Context) error {
	ctx, cancel := cluster.WithGrace(ctx, cluster.Grace)
	defer cancel()
	_, err := Await(ctx, func() (struct{}, error) { return struct{}{}, c.remove() }, nil)
	return err
}

// tryFor bounds one try, so that a cluster that says nothing is reported.
const tryFor = 12 * time.Second

func (c *Claim) reclaim(ctx context.Context, host session.Host) error {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	return session.Reclaim(ctx, host, c.Remains)
}
