package httpfence

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/pawl-locks/pawl/fencing"
)

// maxProblem is more than any refusal of ours has.
const maxProblem = 16 << 10

// Refused returns nil, and leaves resp untouched, if resp is not a refusal by Handler or WriteStale.
// Otherwise it has read and closed the body. It returns a *fencing.StaleError for a stale token, and an
// error matching ErrNoToken for a request that came without a token or with a garbled one. A 412 that is
// not ours, as for an If-Match, is no refusal; nor is one to a HEAD request, which has no body.
func Refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusPreconditionFailed, http.StatusPreconditionRequired, http.StatusBadRequest:
	default:
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != problemType {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p problem
	if err != nil || json.Unmarshal(head, &p) != nil || !p.ours() {
		resp.Body = unread(head, err, resp.Body)
		return nil
	}
	_ = resp.Body.Close()
	if p.Type == typeStale {
		resource, _ := url.PathUnescape(p.Resource)
		return &fencing.StaleError{Resource: resource, Got: p.Got, Highest: p.Highest}
	}
	return fmt.Errorf("httpfence: refused with %d: %s: %w", p.Status, p.Detail, ErrNoToken)
}

func (p *problem) ours() bool {
	return p.Type == typeStale && p.Highest >= p.Got && p.Got > 0 || p.Type == typeNone || p.Type == typeGarbled
}
