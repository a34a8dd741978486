package etcdapi

import (
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// CallOptions are for connections to etcd. With gogo's messages they set a codec that calls the methods
// which these messages have: through protobuf's wrapper, as gRPC does it, each request is marshaled twice,
// to learn its size first. Protobuf's own messages need nothing. Options that come later override these.
func CallOptions() []grpc.CallOption {
	if _, own := any(new(etcdserverpb.TxnRequest)).(proto.Message); own {
		return nil
	}
	return []grpc.CallOption{grpc.ForceCodecV2(codec{})}
}

// gogo is what gogo's generator gives to a message.
type gogo interface {
	Reset()
	Size() int
	MarshalToSizedBuffer(into []byte) (int, error)
	Unmarshal(from []byte) error
}

// codec is gRPC's registered codec for protobuf, except for gogo's messages.
type codec struct{}

func (codec) registered() encoding.CodecV2 { return encoding.GetCodecV2(codec{}.Name()) }

// Name implements encoding.CodecV2. It is sent as a part of the content type.
func (codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(gogo)
	if !ok {
		return c.registered().Marshal(v)
	}
	size := m.Size()
	if mem.IsBelowBufferPoolingThreshold(size) {
		buf := make([]byte, size)
		if err := marshal(buf, m); err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(buf)}, nil
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	if err := marshal(*buf, m); err != nil {
		pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// marshal writes m into buf, which has its size.
// That of nil is 0.
func marshal(buf []byte, m gogo) error {
	if len(buf) == 0 {
		return nil
	}
	_, err := m.MarshalToSizedBuffer(buf)
	return err
}

// Unmarshal implements encoding.CodecV2. Gogo's messages copy what they keep of data.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(gogo)
	if !ok {
		return c.registered().Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	m.Reset()
	return m.Unmarshal(buf.ReadOnlyData())
}
