package cluster

import (
	"context"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// BenchmarkTxn compares a transaction with the same one on the bare stub.
func BenchmarkTxn(b *testing.B) {
	ss := newStubs(b, 1)
	c := ss.connect(ss.config())
	b.Run("bare", func(b *testing.B) {
		bare := c.Pick()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := etcdapi.Txn(context.Background(), bare, writing()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare-hasleader-timeout", func(b *testing.B) {
		bare := c.Pick()
		md := metadata.Pairs("hasleader", "true")
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(context.Background(), md), defaultPerTry)
			if _, err := etcdapi.Txn(ctx, bare, writing()); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Txn(context.Background(), Request{Op: "txn"}, writing()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A request with a deadline and metadata costs no more than the bare stub with the same.
func TestATransactionCostsNoMoreAllocationsThanTheBareStub(t *testing.T) {
	ss := newStubs(t, 1)
	c := ss.connect(ss.config())
	bare := c.Pick()
	md := metadata.Pairs("hasleader", "true")
	floor := testing.AllocsPerRun(500, func() {
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(context.Background(), md), defaultPerTry)
		defer cancel()
		_, err := etcdapi.Txn(ctx, bare, writing())
		require.NoError(t, err)
	})
	ours := testing.AllocsPerRun(500, func() {
		_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
	})
	t.Logf("bare %v, ours %v", floor, ours)
	assert.LessOrEqual(t, ours, floor)
}
