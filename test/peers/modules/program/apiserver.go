//go:build ignore

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/pawl-locks/pawl/lock"
)

// beside holds a lock while the API server's own client looks at etcd.
func beside(ctx context.Context, endpoint string) error {
	c, err := dial(ctx, endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	h, err := lock.New(c, "ours", lock.Options{}).Acquire(ctx)
	if err != nil {
		return err
	}
	healthy, err := factory.CreateHealthCheck(storagebackend.Config{
		Type: storagebackend.StorageTypeETCD3, Transport: storagebackend.TransportConfig{ServerList: []string{endpoint}},
		HealthcheckTimeout: time.Second,
	}, ctx.Done())
	if err != nil {
		return err
	}
	for err = healthy(); err != nil; err = healthy() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server's client: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return h.Release(ctx)
}
