package listwatch

import (
	"cmp"
	"context"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// Persist repeats read until it succeeds, permission is denied, or ctx or the cluster ends.
func Persist(ctx context.Context, c *cluster.Cluster, read func() error) error {
	for pace := backoff.Background(); ; {
		err := read()
		if err == nil || cluster.IsPermissionDenied(err) {
			return err
		}
		backoff.Wait(pace.Next(), ctx.Done(), c.Ended())
		if end := Ended(ctx, c); end != nil {
			return end
		}
	}
}

// Wait waits for news. If ctx or the cluster ends first, it returns the reason.
func Wait(ctx context.Context, c *cluster.Cluster, news <-chan struct{}) error {
	select {
	case <-news:
	case <-ctx.Done():
	case <-c.Ended():
	}
	return Ended(ctx, c)
}

// Ended returns why nothing more can be read, which is the end of ctx and its cause, or the end of the
// cluster. It returns nil if neither has ended.
func Ended(ctx context.Context, c *cluster.Cluster) error {
	return cmp.Or(cluster.EndOf(ctx), c.Err())
}
