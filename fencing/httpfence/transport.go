package httpfence

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/wire"
)

// Header is the name of the header that carries resource and token.
const Header = "Fencing-Token"

// ErrNoToken is matched by the error of a request whose context carries no token. It is fencing.ErrNoToken.
var ErrNoToken = fencing.ErrNoToken

// A Transport is an http.RoundTripper that sends the context's token along. It is safe for
// concurrent use if Base is.
type Transport struct {
	Base http.RoundTripper // http.DefaultTransport if nil
}

// RoundTrip sends r with the token of its context in place of any value that r has under Header. Without
// a token it sends nothing, closes the body and returns an error that matches ErrNoToken. It does not
// judge the answer: see Refused.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, ok := wire.FromContext(r.Context())
	if !ok {
		err := fmt.Errorf("httpfence: %s %s: %w in the request's context", r.Method, r.URL.Redacted(), ErrNoToken)
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	sent := r.Clone(r.Context())
	if sent.Header == nil { // of a request that was not made by http.NewRequest
		sent.Header = http.Header{}
	}
	sent.Header.Set(Header, token.String())
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(sent)
}
