package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// steps are those of a proposal. Each stops members there, and returns when they go on.
var steps = map[string]func(p *proposals){
	"on its way to the leader": func(p *proposals) {
		p.to = p.follower
		p.leader.Pause(p.t)
		p.send()
		p.await(func() bool { return p.pending() == len(p.requests) })
		p.leader.Resume(p.t)
	},
	"in the leader's log": func(p *proposals) {
		p.to = p.leader
		p.eachPeer((*etcdtest.Member).Pause)
		p.send()
		p.await(func() bool { return p.pending() == len(p.requests) })
		p.eachPeer((*etcdtest.Member).Resume)
	},
	"committed, and not applied where it came in": func(p *proposals) {
		p.to = p.follower
		p.leader.Pause(p.t)
		p.send()
		p.await(func() bool { return p.pending() == len(p.requests) })
		p.to.Pause(p.t)
		p.leader.Resume(p.t)
		p.await(func() bool { return p.applied(p.leader) > p.before }) // those that had reached it; the others follow
		p.to.Resume(p.t)
	},
}

// proposals are requests that are under way at the same time.
type proposals struct {
	t                    *testing.T
	ctx                  context.Context
	cluster              *etcdtest.Cluster
	leader, follower, to *etcdtest.Member
	requests             map[string]*pb.TxnRequest // by the key that it puts
	before               uint64                    // the index that was applied before them
	answers              chan answer
}

type answer struct {
	key  string
	resp *pb.TxnResponse
	err  error
}

func (p *proposals) send() {
	kv := pb.NewKVClient(p.to.Conn(p.t))
	for key, r := range p.requests {
		go func() { // ends with its answer, which is awaited
			resp, err := kv.Txn(p.ctx, r)
			p.answers <- answer{key, resp, err}
		}()
	}
}

func (p *proposals) eachPeer(f func(*etcdtest.Member, testing.TB)) {
	for _, m := range p.cluster.Members() {
		if m != p.leader {
			f(m, p.t)
		}
	}
}

// await waits until is holds, or the requests have been answered too early for that.
func (p *proposals) await(is func() bool) {
	for !is() && len(p.answers) == 0 {
		require.NoError(p.t, p.ctx.Err())
		time.Sleep(10 * time.Millisecond)
	}
}

var pending = regexp.MustCompile(`(?m)^etcd_server_proposals_pending (\d+)$`)

func (p *proposals) pending() int {
	r, err := http.NewRequestWithContext(p.ctx, http.MethodGet, p.to.Direct()+"/metrics", nil)
	require.NoError(p.t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	found := pending.FindSubmatch(text)
	require.NotNil(p.t, found)
	n, err := strconv.Atoi(string(found[1]))
	require.NoError(p.t, err)
	return n
}

func (p *proposals) applied(m *etcdtest.Member) uint64 {
	r, err := pb.NewMaintenanceClient(m.Conn(p.t)).Status(p.ctx, &pb.StatusRequest{})
	require.NoError(p.t, err)
	return r.RaftAppliedIndex
}

// answered returns the keys of the requests that the server answered in the way that is says.
func (p *proposals) answered(is func(answer) bool) (keys []string) {
	for range p.requests {
		if a := <-p.answers; is(a) {
			keys = append(keys, a.key)
		}
	}
	return keys
}

func refused(a answer) bool {
	return a.err == nil && !a.resp.Succeeded || errors.Is(rpctypes.Error(a.err), rpctypes.ErrLeaseNotFound)
}

func noSpace(a answer) bool { return errors.Is(rpctypes.Error(a.err), rpctypes.ErrNoSpace) }

// A5: no copy of a request that the server has executed or refused is applied later, wherever a
// member was stopped. What was the reason of the refusal is gone by then.
func TestWhatWasAnsweredIsNotAppliedLater(t *testing.T) {
	testscale.OnlyProof(t, "it stops a cluster's members and changes its leader")
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.StartClusterWith(t, 3, etcdtest.ClusterOptions{Options: etcdtest.Options{ElectionTicks: 50, QuotaBytes: 8 << 20}})
			ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
			defer cancel()
			kv, lease := pb.NewKVClient(c.Conn(t, 0)), int64(4711)
			do := func(op *pb.RequestOp) *pb.TxnResponse {
				resp, err := kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
				require.NoError(t, err)
				return resp
			}
			try := func(requests map[string]*pb.TxnRequest, is func(answer) bool) []string {
				p := &proposals{t: t, ctx: ctx, cluster: c, leader: c.Leader(t), follower: c.Follower(t), requests: requests, answers: make(chan answer, len(requests))}
				p.before = p.applied(p.leader)
				step(p)
				return p.answered(is)
			}
			later := func(keys []string) {
				require.NotEmpty(t, keys)
				c.MoveLeader(t, c.Follower(t))
				for i := range c.Members() {
					_, err := pb.NewKVClient(c.Conn(t, i)).Put(ctx, &pb.PutRequest{Key: []byte("later")})
					require.NoError(t, err)
				}
				for _, key := range keys {
					assert.Nil(t, txn.KV(do(txn.Get(key)), 0), key)
				}
			}

			do(txn.Put("blocker", nil, 0))
			requests := make(map[string]*pb.TxnRequest)
			for i := range 4 {
				key := fmt.Sprintf("compared/%d", i)
				requests[key] = &pb.TxnRequest{Compare: []*pb.Compare{txn.CreateIs("blocker", 0)}, Success: []*pb.RequestOp{txn.Put(key, nil, 0)}}
				key = fmt.Sprintf("leased/%d", i)
				requests[key] = &pb.TxnRequest{Success: []*pb.RequestOp{txn.Put(key, nil, lease)}}
			}
			keys := try(requests, refused)
			do(txn.Delete("blocker"))
			_, err := pb.NewLeaseClient(c.Conn(t, 0)).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: lease, TTL: 600})
			require.NoError(t, err)
			later(keys)

			requests = make(map[string]*pb.TxnRequest)
			for i := range 24 { // together more than there is space for
				key := fmt.Sprintf("large/%d", i)
				requests[key] = &pb.TxnRequest{Success: []*pb.RequestOp{txn.Put(key, make([]byte, 512<<10), 0)}}
			}
			keys = try(requests, noSpace)
			for key := range requests {
				do(txn.Delete(key))
			}
			c.FreeQuota(t)
			later(keys)
		})
	}
}
