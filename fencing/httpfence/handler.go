package httpfence

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/wire"
)

// Handler returns a handler that has each request's token admitted by g, puts it in the request's
// context and calls next. It answers by itself: 428 without a token, 400 with a garbled one or more than
// one, 412 with one that g refuses as stale. If g is nil, it refuses no token as stale, which is for
// services whose storage does. It panics if next is nil.
//
// A service of several replicas needs a guard that they share, since each gate knows only the requests
// that it has seen. Pass nil, and let the storage refuse.
func Handler(g *fencing.Gate, next http.Handler) http.Handler {
	if next == nil {
		panic("httpfence: nil next handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, refusal := parse(r)
		if refusal == nil {
			refusal = admit(g, token)
		}
		if refusal != nil {
			refusal.write(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(token.NewContext(r.Context())))
	})
}

// Admit reports whether the request has a token for resource that g admits, in the mode that the token
// states. It is for a handler that serves several resources, or that has no Handler around it. Call it
// under the mutex that guards what the handler writes. If it returns false, it has answered: 428 without
// a token, or with one for another resource, 400 with a garbled one or more than one, 412 with one that
// g refuses as stale. If g is nil, no token is stale.
func Admit(w http.ResponseWriter, r *http.Request, g *fencing.Gate, resource string) bool {
	token, refusal := parse(r)
	switch {
	case refusal != nil:
	case token.Resource != resource:
		refusal = none(fmt.Sprintf("the request's token is for %.64q, not for %.64q", token.Resource, resource))
	default:
		refusal = admit(g, token)
	}
	if refusal != nil {
		refusal.write(w)
	}
	return refusal == nil
}

func parse(r *http.Request) (t wire.Token, refusal *problem) {
	headers := r.Header.Values(Header)
	switch len(headers) {
	case 0:
		return t, none("the request has no " + Header + " header")
	case 1:
	default:
		return t, &problem{Type: typeGarbled, Title: "several fencing tokens", Status: http.StatusBadRequest, Detail: "the request has more than one " + Header + " header"}
	}
	t, err := wire.Parse(headers[0])
	if err != nil {
		return t, &problem{Type: typeGarbled, Title: "garbled fencing token", Status: http.StatusBadRequest, Detail: Header + " is " + err.Error()}
	}
	return t, nil
}

func none(why string) *problem {
	return &problem{Type: typeNone, Title: "no fencing token", Status: http.StatusPreconditionRequired, Detail: why}
}

func admit(g *fencing.Gate, t wire.Token) *problem {
	var stale *fencing.StaleError
	if errors.As(t.Admit(g), &stale) {
		return staleProblem(stale)
	}
	return nil // parse accepts only what fencing.Check accepts, so there is no other error
}

// The kinds of refusals.
const (
	typeStale   = "urn:pawl:fencing:stale"
	typeNone    = "urn:pawl:fencing:no-token"
	typeGarbled = "urn:pawl:fencing:garbled-token"
)

// A problem is the body of a refusal.
type problem struct {
	Type     string        `json:"type"`
	Title    string        `json:"title"`
	Status   int           `json:"status"`
	Detail   string        `json:"detail"`
	Resource string        `json:"resource,omitempty"` // percent-encoded, as JSON has no text for some names
	Got      fencing.Token `json:"got,omitempty"`
	Highest  fencing.Token `json:"highest,omitempty"`
}

func staleProblem(e *fencing.StaleError) *problem {
	return &problem{Type: typeStale, Title: "stale fencing token", Status: http.StatusPreconditionFailed, Detail: strings.TrimPrefix(e.Error(), "fencing: "),
		Resource: url.PathEscape(e.Resource), Got: e.Got, Highest: e.Highest}
}

// WriteStale answers a request with 412 and the body that Handler writes. It is for handlers that learn
// of a stale token only from their storage.
func WriteStale(w http.ResponseWriter, e *fencing.StaleError) { staleProblem(e).write(w) }

const problemType = "application/problem+json"

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status) // cannot be: strings and numbers
		return
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}
