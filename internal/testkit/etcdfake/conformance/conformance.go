// Package conformance has conversations with two etcd servers, the real one and the one in memory,
// and compares their answers, which must be the same.
package conformance

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// script is one conversation with a server. The server's answers must not depend on which server it
// is.
type script struct {
	name string
	run  func(r *rig)
}

// rig holds the connections of a script and notes the answers.
type rig struct {
	t       *testing.T
	kv      pb.KVClient
	lease   pb.LeaseClient
	watcher pb.WatchClient
	maint   pb.MaintenanceClient
	members pb.ClusterClient
	auth    pb.AuthClient
	all     context.Context // of the whole script
	ctx     context.Context // of the present user
	answers []answer
}

// answer is what came back for one request.
type answer struct {
	To      string
	Message etcdapi.Message
	Error   string
}

func newRig(t *testing.T, connect Dial) *rig {
	endpoint, dial := connect(t)
	conn, err := grpc.NewClient("passthrough:///"+endpoint, dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour) // of a bubble
	t.Cleanup(cancel)
	return &rig{
		t: t, all: ctx, ctx: ctx, kv: pb.NewKVClient(conn), lease: pb.NewLeaseClient(conn), watcher: pb.NewWatchClient(conn),
		maint: pb.NewMaintenanceClient(conn), members: pb.NewClusterClient(conn), auth: pb.NewAuthClient(conn),
	}
}

// A Dial connects to a new server, which lasts as long as the test or the bubble of t. Its auth tokens
// live for TokenTTL.
type Dial func(t *testing.T) (endpoint string, dial grpc.DialOption)

// TokenTTL is how long the scripts expect auth tokens to live on both servers.
const TokenTTL = 5 * time.Second

// Compare runs each script with both servers, each time in a bubble, and requires that they answer alike.
func Compare(t *testing.T, one, other Dial) {
	for _, s := range slices.Concat(kvScripts, txnScripts, nestedScripts, leaseScripts, watchScripts, authScripts) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			first, second := converse(t, s, one), converse(t, s, other)
			require.NotEmpty(t, first)
			for i := range max(len(first), len(second)) {
				one, other := text(first, i), text(second, i)
				if one != other {
					t.Errorf("answer %d differs:\n- %s\n+ %s", i, one, other)
				}
			}
		})
	}
}

// text returns what an answer says.
func text(answers []answer, i int) string {
	if i >= len(answers) {
		return "none"
	}
	a := answers[i]
	if a.Message == nil {
		return a.To + ": " + a.Error
	}
	return a.To + ": " + a.Message.String()
}

// converse runs a script in a bubble and returns the answers.
func converse(t *testing.T, s script, dial Dial) []answer {
	var r *rig
	synctest.Test(t, func(t *testing.T) {
		r = newRig(t, dial)
		s.run(r)
	})
	return r.answers
}

// note keeps an answer, without what must differ between two clusters.
func (r *rig) note(to string, m etcdapi.Message, err error) {
	a := answer{To: to}
	if err != nil {
		a.Error = status.Code(err).String() + ": " + status.Convert(err).Message()
	} else {
		a.Message = etcdapi.Clone(m)
		if h, ok := a.Message.(interface{ GetHeader() *pb.ResponseHeader }); ok && h.GetHeader() != nil {
			h.GetHeader().ClusterId = min(1, h.GetHeader().ClusterId)
			h.GetHeader().MemberId = min(1, h.GetHeader().MemberId)
		}
	}
	r.answers = append(r.answers, a)
}

func (r *rig) put(m *pb.PutRequest) {
	resp, err := r.kv.Put(r.ctx, m)
	r.note("put "+string(m.Key), resp, err)
}

func (r *rig) puts(keys ...string) {
	for _, k := range keys {
		r.put(&pb.PutRequest{Key: []byte(k), Value: []byte("v" + k)})
	}
}

func (r *rig) get(m *pb.RangeRequest) {
	resp, err := r.kv.Range(r.ctx, m)
	r.note("range "+string(m.Key), resp, err)
}

func (r *rig) del(m *pb.DeleteRangeRequest) {
	resp, err := r.kv.DeleteRange(r.ctx, m)
	r.note("delete "+string(m.Key), resp, err)
}

func (r *rig) txn(m *pb.TxnRequest) {
	resp, err := r.kv.Txn(r.ctx, m)
	r.note("txn", resp, err)
}

func (r *rig) compact(rev int64) {
	resp, err := r.kv.Compact(r.ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
	r.note("compact", resp, err)
}

func (r *rig) grant(id, ttl int64) {
	resp, err := r.lease.LeaseGrant(r.ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	r.note("grant", resp, err)
}

func (r *rig) revoke(id int64) {
	resp, err := r.lease.LeaseRevoke(r.ctx, &pb.LeaseRevokeRequest{ID: id})
	r.note("revoke", resp, err)
}

func (r *rig) ttl(id int64, keys bool) {
	resp, err := r.lease.LeaseTimeToLive(r.ctx, &pb.LeaseTimeToLiveRequest{ID: id, Keys: keys})
	r.note("ttl", resp, err)
}

// as sends the following requests as a user who has just authenticated. "" is nobody, and "bad" is
// somebody with a token that was never issued.
func (r *rig) as(user, password string) {
	r.ctx = r.all
	token := "bad.1"
	switch user {
	case "":
		return
	case "bad":
	default:
		resp, err := r.auth.Authenticate(r.ctx, &pb.AuthenticateRequest{Name: user, Password: password})
		token = resp.GetToken()
		if err == nil {
			resp.Token = "some"
		}
		r.note("authenticate "+user, resp, err)
	}
	r.ctx = metadata.AppendToOutgoingContext(r.ctx, "token", token)
}

func kput(k, v string) *pb.PutRequest { return &pb.PutRequest{Key: []byte(k), Value: []byte(v)} }

func opPut(m *pb.PutRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: m}}
}

func opGet(m *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: m}}
}

func opDel(m *pb.DeleteRangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: m}}
}

func opTxn(m *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: m}}
}

func ops(o ...*pb.RequestOp) []*pb.RequestOp { return o }

func span(k, end string) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(k), RangeEnd: []byte(end)}
}
