package ui

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/kv"
)

const (
	breakWithin = 10 * time.Second
	maxRequest  = 64 << 10
)

// breakHeader carries Options.Token. No other site can send it, because a browser would first
// request permission, and get no answer.
const breakHeader = "Pawl-Break"

// mayBreak compares the key in a request.
func (p *Page) mayBreak(r *http.Request) bool {
	return p.opts.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(breakHeader)), []byte(p.opts.Token)) == 1
}

// key answers whether a request contains the key to break.
func (p *Page) key(w http.ResponseWriter, r *http.Request) {
	if !p.mayBreak(r) {
		refuse(w, http.StatusForbidden, "this is not the key of this pawl ui")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// breakIt evicts the holder that the browser showed, if it still holds.
func (p *Page) breakIt(w http.ResponseWriter, r *http.Request) {
	if p.opts.Token == "" {
		refuse(w, http.StatusForbidden, "this page is read-only: start it with --allow-break")
		return
	}
	if !p.mayBreak(r) {
		refuse(w, http.StatusForbidden, "without its key the page is read-only: open the whole address that pawl ui printed, #key=… included")
		return
	}
	var request struct {
		Queue string        `json:"queue"`
		Token fencing.Token `json:"token,string"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "want queue and token as JSON: "+err.Error())
		return
	}
	l, ok := p.hub.queue(request.Queue)
	i := slices.IndexFunc(l.Holders(), func(p inspect.Position) bool { return p.Token == request.Token })
	if !ok || i < 0 {
		refuse(w, http.StatusConflict, "somebody else holds it now, or nobody: nothing was done")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), breakWithin)
	defer cancel()
	err := inspect.Evict(ctx, p.client, l.Queue[i], p.opts.By)
	switch {
	case err == nil:
		p.opts.Logger.Info("ui: holder evicted", "name", l.Name, "token", request.Token, "by", p.opts.By)
		answer(w, http.StatusOK, map[string]any{"evicted": positionOf(l.Queue[i])})
	case errors.Is(err, inspect.ErrGone):
		refuse(w, http.StatusConflict, "it is not there any more: nothing was done")
	case errors.Is(err, kv.ErrUnknown):
		refuse(w, http.StatusBadGateway, "no answer came, so it may have been evicted or not: see who holds it. "+err.Error())
	default:
		refuse(w, http.StatusBadGateway, err.Error())
	}
}
