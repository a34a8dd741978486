package etcdfake_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-locks/pawl/internal/testkit/embedded"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	api "go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// script is one conversation with a server; what the server says must not
// depend on which one it is.
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
	Message proto.Message
	Error   string
}

func newRig(t *testing.T, endpoint string, dial grpc.DialOption) *rig {
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

func TestFakeAnswersAsTheRealServer(t *testing.T) {
	var scripts []script
	for _, s := range [][]script{kvScripts, txnScripts, nestedScripts, leaseScripts, watchScripts, authScripts} {
		scripts = append(scripts, s...)
	}
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			real := converse(t, s, func(t *testing.T) *rig {
				e := embedded.Start(t, embedded.Options{TokenTTL: 5 * time.Second})
				return newRig(t, e.Endpoints()[0], e.DialOption())
			})
			fake := converse(t, s, func(t *testing.T) *rig {
				c := etcdfake.New(etcdfake.Options{Version: api.Version, TokenTTL: 5 * time.Second})
				t.Cleanup(c.Close)
				return newRig(t, c.Endpoints()[0], c.DialOption())
			})
			require.NotEmpty(t, real)
			if d := cmp.Diff(real, fake, protocmp.Transform()); d != "" {
				t.Errorf("real (-) and fake (+) differ:\n%s", d)
			}
		})
	}
}

// converse runs a script in a bubble and returns the answers.
func converse(t *testing.T, s script, connect func(*testing.T) *rig) []answer {
	var r *rig
	synctest.Test(t, func(t *testing.T) {
		r = connect(t)
		s.run(r)
	})
	return r.answers
}

// note keeps an answer, without what must differ between two clusters.
func (r *rig) note(to string, m proto.Message, err error) {
	a := answer{To: to}
	if err != nil {
		a.Error = status.Code(err).String() + ": " + status.Convert(err).Message()
	} else {
		a.Message = proto.Clone(m)
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

// as makes what follows the requests of a user who has just authenticated; ""
// is nobody, "bad" somebody with a token that was never given out.
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
