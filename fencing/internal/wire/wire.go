// Package wire is the text form of the token that a context carries, as httpfence and grpcfence send it.
// It is the token in decimal, a space, and the resource percent-encoded, as in "57 jobs%2F42"; for the
// token of a shared lock a space and the word "shared" follow. The mode is a part of the token's text,
// so that nothing on the way can put one caller's mode beside another's token. Each token has one
// spelling, and Parse accepts no other, so that it detects two headers joined by a proxy, or one cut
// short of its resource.
package wire

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-locks/pawl/fencing"
)

// ErrGarbled is the error of Parse.
var ErrGarbled = errors.New("not of the form TOKEN SPACE RESOURCE, as in \"57 jobs%2F42\", or TOKEN SPACE RESOURCE SPACE shared")

// A Token is a token with its resource and mode.
type Token struct {
	Resource string
	Token    fencing.Token
	Shared   bool
}

// FromContext returns the token that ctx carries, in either mode.
func FromContext(ctx context.Context) (Token, bool) {
	if resource, t, ok := fencing.FromContext(ctx); ok {
		return Token{resource, t, false}, true
	}
	resource, t, ok := fencing.FromSharedContext(ctx)
	return Token{resource, t, true}, ok
}

// NewContext returns a child of ctx that carries t.
func (t Token) NewContext(ctx context.Context) context.Context {
	if t.Shared {
		return fencing.NewSharedContext(ctx, t.Resource, t.Token)
	}
	return fencing.NewContext(ctx, t.Resource, t.Token)
}

// Admit has g admit t in its mode. A nil g admits all.
func (t Token) Admit(g *fencing.Gate) error {
	switch {
	case g == nil:
		return nil
	case t.Shared:
		return g.AdmitShared(t.Resource, t.Token)
	}
	return g.Admit(t.Resource, t.Token)
}

const sharedMark = " shared"

// String returns the text of a token that fencing.Check accepts.
func (t Token) String() string {
	text := strconv.FormatInt(int64(t.Token), 10) + " " + url.PathEscape(t.Resource)
	if t.Shared {
		text += sharedMark
	}
	return text
}

// Parse returns the token whose text it is, or ErrGarbled.
func Parse(text string) (t Token, err error) {
	digits, rest, _ := strings.Cut(text, " ")
	escaped, shared := strings.CutSuffix(rest, sharedMark)
	n, err1 := strconv.ParseInt(digits, 10, 64)
	resource, err2 := url.PathUnescape(escaped)
	t = Token{resource, fencing.Token(n), shared}
	if err1 != nil || err2 != nil || fencing.Check(resource, t.Token) != nil || t.String() != text {
		return Token{}, ErrGarbled
	}
	return t, nil
}
