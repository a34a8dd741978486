//go:build ignore

package main

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/pawl-locks/pawl/lock"
)

func beside(ctx context.Context, endpoint string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()
	return exclude(ctx, endpoint, client)
}

// exclude locks one name with pawl and with etcd's client.
func exclude(ctx context.Context, endpoint string, client *clientv3.Client) error {
	c, err := dial(ctx, endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	session, err := concurrency.NewSession(client)
	if err != nil {
		return err
	}
	defer session.Close()
	ours := lock.New(c, "both", lock.Options{EtcdLayout: true})
	theirs := concurrency.NewMutex(session, "both")

	h, err := ours.Acquire(ctx)
	if err != nil {
		return err
	}
	if err := theirs.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		return fmt.Errorf("etcd's client locks what pawl holds: %v", err)
	}
	g := h.Guard()
	r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(g.Key()), "=", g.CreateRevision())).
		Then(clientv3.OpPut("guarded", "1")).Commit()
	if err != nil || !r.Succeeded {
		return fmt.Errorf("a guarded transaction of etcd's client: %v, %w", r, err)
	}
	if err := h.Release(ctx); err != nil {
		return err
	}
	if err := theirs.Lock(ctx); err != nil {
		return err
	}
	if _, err := ours.TryAcquire(ctx); !errors.Is(err, lock.ErrBusy) {
		return fmt.Errorf("pawl acquires what etcd's client holds: %v", err)
	}
	return theirs.Unlock(ctx)
}
