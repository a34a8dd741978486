package etcdapi

import (
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// kinds are the messages that calls.go sends and receives.
var kinds = []func() Message{
	func() Message { return new(pb.RangeRequest) }, func() Message { return new(pb.RangeResponse) },
	func() Message { return new(pb.TxnRequest) }, func() Message { return new(pb.TxnResponse) },
	func() Message { return new(pb.LeaseGrantRequest) }, func() Message { return new(pb.LeaseGrantResponse) },
	func() Message { return new(pb.LeaseRevokeRequest) }, func() Message { return new(pb.LeaseRevokeResponse) },
	func() Message { return new(pb.LeaseTimeToLiveRequest) }, func() Message { return new(pb.LeaseTimeToLiveResponse) },
	func() Message { return new(pb.LeaseKeepAliveRequest) }, func() Message { return new(pb.LeaseKeepAliveResponse) },
	func() Message { return new(pb.MemberListRequest) }, func() Message { return new(pb.MemberListResponse) },
	func() Message { return new(pb.StatusRequest) }, func() Message { return new(pb.StatusResponse) },
	func() Message { return new(pb.AuthenticateRequest) }, func() Message { return new(pb.AuthenticateResponse) },
	func() Message { return new(pb.WatchRequest) }, func() Message { return new(pb.WatchResponse) },
}

// Each message has each of its fields set, in turns if only one of them can be, and is as long as those that
// take a buffer from gRPC's pool, as short as those that do not, or empty.
func TestTheCodecSendsAndReadsEachMessageAsGRPCsDoes(t *testing.T) {
	registered := encoding.GetCodecV2("proto")
	for _, kind := range kinds {
		for _, long := range []int{0, 1, 3000} {
			for alternative := range 6 {
				m := kind()
				if long > 0 {
					fill(Of(m).ProtoReflect(), alternative, long, 4)
				}
				t.Run(fmt.Sprintf("%T/%d/%d", m, long, alternative), func(t *testing.T) {
					want, err := registered.Marshal(m)
					require.NoError(t, err)
					got, err := codec{}.Marshal(m)
					require.NoError(t, err)
					assert.Equal(t, want.Materialize(), got.Materialize())

					read := kind()
					fill(Of(read).ProtoReflect(), alternative+1, 2, 4) // what it had before is gone
					require.NoError(t, codec{}.Unmarshal(got, read))
					assert.True(t, Equal(m, read), "want %v\ngot  %v", m, read)
					got.Free() // whose buffer others may overwrite now
					other := mem.DefaultBufferPool().Get(want.Len())
					clear(*other)
					assert.True(t, Equal(m, read), "want %v\ngot  %v", m, read)
				})
			}
		}
	}
}

// fill sets all fields of m, and of each oneof the one whose turn it is. Texts have a length of long.
func fill(m protoreflect.Message, alternative, long, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		of := f.ContainingOneof()
		switch {
		case depth == 0, of != nil && of.Fields().Get(alternative%of.Fields().Len()) != f:
		case f.IsMap():
			panic(f.FullName() + ": no message of etcd had a map")
		case f.IsList():
			list := m.Mutable(f).List()
			for j := range 4 {
				if f.Message() != nil {
					fill(list.AppendMutable().Message(), alternative+j, long, depth-1)
				} else {
					list.Append(value(f, long+j))
				}
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), alternative, long, depth-1)
		default:
			m.Set(f, value(f, long))
		}
	}
}

// value is one that is not the zero value.
func value(f protoreflect.FieldDescriptor, long int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(strings.Repeat("b", long)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Repeat("s", long))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-int64(long))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<63 + uint64(long))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-int32(long))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1<<31 + uint32(long))
	}
	panic(fmt.Sprintf("%s is a %s", f.FullName(), f.Kind()))
}

func TestTheCodecReportsWhatIsNoMessage(t *testing.T) {
	_, err := codec{}.Marshal("text")
	assert.Error(t, err)
	assert.Error(t, codec{}.Unmarshal(nil, new(string)))
	for _, bad := range [][]byte{{0xff}, {0x0a, 0x7f}, {0x0a}} {
		assert.Error(t, codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bad)}, new(pb.TxnResponse)), "%x", bad)
	}
	got, err := codec{}.Marshal((*pb.TxnRequest)(nil))
	require.NoError(t, err)
	assert.Zero(t, got.Len())
}

// Others use a connection to etcd too: the health check does.
func TestTheCodecTakesProtobufsOwnMessages(t *testing.T) {
	want := &grpc_health_v1.HealthCheckRequest{Service: "etcd"}
	data, err := codec{}.Marshal(want)
	require.NoError(t, err)
	got := new(grpc_health_v1.HealthCheckRequest)
	require.NoError(t, codec{}.Unmarshal(data, got))
	assert.Equal(t, want.Service, got.Service)
}

// BenchmarkCodec marshals and reads what an enqueue sends and gets.
func BenchmarkCodec(b *testing.B) {
	key, name := []byte("orders/6a0fb1c2d3e4f506-1"), []byte("orders/")
	header := &pb.ResponseHeader{ClusterId: 1 << 62, MemberId: 1 << 61, Revision: 123456789, RaftTerm: 7}
	reading := func(from, to []byte) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
			Key: from, RangeEnd: to, Limit: 1, SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE,
		}}}
	}
	read := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 123456789}}}}
	messages := map[string]Message{
		"TxnRequest": &pb.TxnRequest{
			Compare: []*pb.Compare{
				{Target: pb.Compare_CREATE, Key: key, TargetUnion: &pb.Compare_CreateRevision{}},
				{Target: pb.Compare_CREATE, Key: []byte("//pawl/6a0fb1c2d3e4f506/1"), TargetUnion: &pb.Compare_CreateRevision{}},
				{Target: pb.Compare_MOD, Key: []byte("//pawl/6a0fb1c2d3e4f506"), TargetUnion: &pb.Compare_ModRevision{ModRevision: 123456780}},
			},
			Success: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte("pawl:2026-01-02T03:04:05Z"), Lease: 0x6a0fb1c2d3e4f506}}},
				reading(name, key), reading(key, []byte("orders0")),
			},
		},
		"TxnResponse": &pb.TxnResponse{Header: header, Succeeded: true, Responses: []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: &pb.ResponseHeader{Revision: 123456789}}}}, read, read,
		}},
	}
	codecs := map[string]encoding.CodecV2{"grpc": encoding.GetCodecV2("proto"), "etcdapi": codec{}}
	for _, name := range []string{"TxnRequest", "TxnResponse"} {
		for _, by := range []string{"grpc", "etcdapi"} {
			b.Run(name+"/"+by, func(b *testing.B) {
				b.ReportAllocs()
				m := messages[name]
				into := map[string]Message{"TxnRequest": new(pb.TxnRequest), "TxnResponse": new(pb.TxnResponse)}[name]
				for b.Loop() {
					data, err := codecs[by].Marshal(m)
					if err == nil {
						err = codecs[by].Unmarshal(data, into)
						data.Free()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
