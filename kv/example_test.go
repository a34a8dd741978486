package kv_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A member of a group registers itself. Its key goes with its session, however
// that ends, and everybody sees who is there.
func ExampleOnSession() {
	t := &example{}
	defer t.end()
	ctx := context.Background()
	client := pawltest.New(t).Client(t, pawl.Config{})

	session, err := client.NewSession(ctx, lease.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	register := kv.OnSession(kv.Put("members/a", []byte("10.0.0.1:80")), session)
	if _, err := client.KV().Txn(ctx, kv.Txn{Then: []kv.Op{register}}); err != nil {
		fmt.Println(err)
		return
	}
	members, err := client.KV().List(ctx, "members/", 0)
	for _, m := range members {
		fmt.Println(m.Key, string(m.Value), err)
	}
	fmt.Println(session.Close(ctx))
	members, err = client.KV().List(ctx, "members/", 0)
	fmt.Println(len(members), "members", err)
	// Output:
	// members/a 10.0.0.1:80 <nil>
	// <nil>
	// 0 members <nil>
}

// A prefix can be read in the same transaction that writes.
func ExampleGetPrefix() {
	t := &example{}
	defer t.end()
	ctx := context.Background()
	client := pawltest.New(t).Client(t, pawl.Config{})

	res, err := client.KV().Txn(ctx, kv.Txn{Then: []kv.Op{
		kv.Put("jobs/2", []byte("report")), kv.Put("jobs/1", []byte("mail")), kv.Put("jobs/3", nil),
		kv.GetPrefix("jobs/", 2),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range res.Gets {
		fmt.Println(e.Key, string(e.Value))
	}
	fmt.Println("more:", res.More)
	// Output:
	// jobs/1 mail
	// jobs/2 report
	// more: true
}

func ExampleClient_Get() {
	t := &example{}
	defer t.end()
	ctx := context.Background()
	client := pawltest.New(t).Client(t, pawl.Config{})

	e, err := client.KV().Get(ctx, "config")
	fmt.Println(e.ModRevision > 0, err)
	// Output:
	// false <nil>
}

// example stands in for a test in runnable examples.
type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

func (e *example) Helper()                           {}
func (e *example) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }
func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestAKeyOnASessionGoesWhenTheServerEndsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := pawltest.New(t)
		client := cluster.Client(t, pawl.Config{})
		session, err := client.NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		on := kv.OnSession(kv.Put("k", nil), session)
		_, err = client.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{on}})
		require.NoError(t, err)
		got, err := client.KV().Get(t.Context(), "k")
		require.NoError(t, err)
		assert.Positive(t, got.ModRevision)

		cluster.Revoke(session.ID())
		_, err = client.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{on}})
		require.Error(t, err, "whether the session knows it or not")
		assert.NotErrorIs(t, err, kv.ErrUnknown)
		got, err = client.KV().Get(t.Context(), "k")
		require.NoError(t, err)
		assert.Zero(t, got.ModRevision)

		<-session.Done()
		_, err = client.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{on}})
		assert.ErrorIs(t, err, lease.ErrRevoked)
	})
}
