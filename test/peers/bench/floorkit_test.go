//go:build linux

package main

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// sent is the transactions of one kit that name a lock.
type sent struct {
	mu  sync.Mutex
	all []string
}

// The parts of a transaction that differ from session to session.
var (
	leases    = regexp.MustCompile(`[0-9a-f]{10,19}`)
	moments   = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	revisions = regexp.MustCompile(`(_revision: *)[1-9]\d*`)
	blanks    = regexp.MustCompile(` +`) // their number is random
)

// see records t, without what differs from session to session, unless it is a renewal's.
func (s *sent) see(t *pb.TxnRequest) {
	text := t.String()
	if !strings.Contains(text, "some-name/") {
		return
	}
	text = moments.ReplaceAllString(text, "TIME")
	text = leases.ReplaceAllString(text, "LEASE")
	text = revisions.ReplaceAllString(text, "${1}REVISION")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, blanks.ReplaceAllString(text, " "))
}

// recording is a client of the bare stubs.
type recording struct {
	pb.KVClient
	to *sent
}

func (r recording) Txn(ctx context.Context, t *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	r.to.see(t)
	return r.KVClient.Txn(ctx, t, opts...)
}

// The floor is a bound because it sends what pawl sends: the same comparisons, operations and
// values.
func TestTheFloorSendsPawlsTransactions(t *testing.T) {
	t.Parallel()
	e, err := startEtcd(t.Context(), t.TempDir(), 1, false)
	require.NoError(t, err)
	defer e.stop()
	all := map[string]*sent{ours: {}, bare: {}, batched: {}, dutiful: {}}
	for name, s := range all {
		k := kits[name]
		if name == ours {
			k = pawlKit{options: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if t, ok := req.(*pb.TxnRequest); ok {
					s.see(t)
				}
				return invoke(ctx, method, req, reply, conn, opts...)
			})}}
		}
		c, err := k.dial(t.Context(), e.addr)
		require.NoError(t, err)
		if f, ok := c.(*floorClient); ok {
			f.kv = recording{f.kv, s}
		}
		of, err := c.session(t.Context(), longTTL)
		require.NoError(t, err)
		l := of.locker("some-name")
		h, err := l.acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.release(t.Context()))
		h, err = l.try(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.release(t.Context()))
	}
	require.Len(t, all[ours].all, 5, "an acquisition and a release, a try that reads first and a release")
	for name, s := range all {
		assert.Equal(t, all[ours].all, s.all, name)
	}
}

// As many requests of several transactions may be in flight as of pawl's writes.
func TestTheFloorHasPawlsLimit(t *testing.T) {
	for trip, want := range map[time.Duration]int{0: 2, 500 * time.Microsecond: 2, 2100 * time.Microsecond: 7, 30 * time.Millisecond: 16} {
		b := floorBatches{trip: trip}
		for b.open() {
			b.busy++
		}
		assert.Equal(t, want, b.busy, trip)
	}
}
