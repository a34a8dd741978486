package fencing

import "context"

type contextKey struct{}

type carried struct {
	resource string
	token    Token
	shared   bool
}

// NewContext returns a child of ctx that carries t, an exclusive token, for resource. One token
// travels in a context: this one hides whatever ctx carried.
//
// A resource or token that Check refuses is not carried, but still hides what ctx carried. FromContext
// then finds nothing, and code that sends or checks the context's token refuses instead of acting under
// the token of an outer lock.
func NewContext(ctx context.Context, resource string, t Token) context.Context {
	return newContext(ctx, carried{resource, t, false})
}

// NewSharedContext is NewContext for the token of a shared lock.
func NewSharedContext(ctx context.Context, resource string, t Token) context.Context {
	return newContext(ctx, carried{resource, t, true})
}

func newContext(ctx context.Context, c carried) context.Context {
	if Check(c.resource, c.token) != nil {
		c = carried{}
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the innermost resource and token of ctx. It returns false and zero values if there
// is none, if the innermost cannot be used, or if it is a shared one: code that does not know shared
// tokens must not take one for exclusive.
func FromContext(ctx context.Context) (resource string, t Token, ok bool) {
	return fromContext(ctx, false)
}

// FromSharedContext is FromContext for the token of a shared lock; ok is false if the innermost is
// an exclusive one.
func FromSharedContext(ctx context.Context) (resource string, t Token, ok bool) {
	return fromContext(ctx, true)
}

func fromContext(ctx context.Context, shared bool) (resource string, t Token, ok bool) {
	c, _ := ctx.Value(contextKey{}).(carried)
	if c.token <= 0 || c.shared != shared {
		return "", 0, false
	}
	return c.resource, c.token, true
}
