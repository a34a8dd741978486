package etcdapi

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A Message is a request or an answer, of any version.
type Message = protoadapt.MessageV1

// Of gives m to what works on protobuf's own messages.
func Of(m Message) proto.Message { return protoadapt.MessageV2Of(m) }

// Clone returns a deep copy of m.
func Clone[M Message](m M) M { return protoadapt.MessageV1Of(proto.Clone(Of(m))).(M) }

// Size returns how many bytes m takes on the wire.
func Size(m Message) int { return proto.Size(Of(m)) }

// Equal reports whether two messages are of one type and content.
func Equal(a, b Message) bool { return proto.Equal(Of(a), Of(b)) }

// Clear clears those of the fields that m's version has.
func Clear(m Message, fields ...protoreflect.Name) {
	r := Of(m).ProtoReflect()
	for _, name := range fields {
		if f := r.Descriptor().Fields().ByName(name); f != nil {
			r.Clear(f)
		}
	}
}
