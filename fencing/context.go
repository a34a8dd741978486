package fencing

import "context"

type contextKey struct{}

type held struct {
	resource string
	token    Token
}

// NewContext returns a child of ctx that carries t for resource. One token travels in a context: this one hides
// whatever ctx carried.
//
// A resource or token that Check refuses is not carried, and hides what ctx carried all the same: FromContext then
// finds nothing, and whoever sends or checks the context's token refuses, rather than act under the token of an outer lock.
func NewContext(ctx context.Context, resource string, t Token) context.Context {
	if Check(resource, t) != nil {
		return context.WithValue(ctx, contextKey{}, held{})
	}
	return context.WithValue(ctx, contextKey{}, held{resource, t})
}

// FromContext returns the innermost resource and token of ctx. ok is false, and the others are zero, when there is none
// or when the innermost cannot be used.
func FromContext(ctx context.Context) (resource string, t Token, ok bool) {
	h, _ := ctx.Value(contextKey{}).(held)
	return h.resource, h.token, h.token > 0
}
