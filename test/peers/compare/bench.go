//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// bench is the environment of a row's measurement.
type bench struct {
	t *scope
	c *etcdtest.Cluster

	binaries map[string]string // built, by package
}

func (b *bench) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (b *bench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.t.Cleanup(cancel)
	return ctx
}

// network is a client's connections to the members.
type network []*faultproxy.Proxy

func (b *bench) network() (n network, endpoints []string) {
	for _, m := range b.c.Members() {
		p := faultproxy.Start(b.t, m.Addr())
		n, endpoints = append(n, p), append(endpoints, "http://"+p.Addr())
	}
	return n, endpoints
}

func (n network) each(f func(p *faultproxy.Proxy)) {
	for _, p := range n {
		f(p)
	}
}

// operator is a client without proxies.
func (b *bench) operator() *clientv3.Client {
	var endpoints []string
	for _, m := range b.c.Members() {
		endpoints = append(endpoints, strings.TrimPrefix(m.Direct(), "http://"))
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	b.must(err)
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// keys counts the keys under a name.
func (b *bench) keys(op *clientv3.Client, name string) int64 {
	r, err := op.Get(b.within(20*time.Second), name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	b.must(err)
	return r.Count
}

// waitFor waits until f holds and returns how long that took. It returns false if f did not hold
// within limit.
func waitFor(limit time.Duration, f func() bool) (time.Duration, bool) {
	start := time.Now()
	for !f() {
		if time.Since(start) > limit {
			return limit, false
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start), true
}

func after(d time.Duration, ok bool) string {
	if !ok {
		return fmt.Sprintf("not within %v", d)
	}
	return fmt.Sprintf("after %d ms", d.Milliseconds())
}
