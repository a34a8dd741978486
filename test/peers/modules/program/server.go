//go:build ignore

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/pawl-locks/pawl/lock"
)

// beside locks one name of an embedded server with pawl and with the server's own client.
func beside(ctx context.Context, _ string) error {
	dir, err := os.MkdirTemp("", "beside")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = dir, "error"
	any := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = any, any
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
	case <-ctx.Done():
		return ctx.Err()
	}
	client := v3client.New(etcd.Server)
	defer client.Close()
	c, err := dial(ctx, etcd.Clients[0].Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	h, err := lock.New(c, "ours", lock.Options{}).Acquire(ctx)
	if err != nil {
		return err
	}
	r, err := client.Get(ctx, h.Key())
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != int64(h.Token()) {
		return fmt.Errorf("the server's client does not see the lock: %v, %w", r, err)
	}
	if _, err := client.Delete(ctx, h.Key()); err != nil {
		return err
	}
	<-h.Done()
	if err := h.Err(); !errors.Is(err, lock.ErrKeyDeleted) {
		return fmt.Errorf("a lock whose key was deleted: %w", err)
	}
	return nil
}
