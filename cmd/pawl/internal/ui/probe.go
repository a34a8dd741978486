package ui

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// These are the sources of failures.
const (
	following = iota
	answering
)

const probeEvery = 5 * time.Second

// probe reads from the cluster periodically, while a browser is connected, because a follower that
// waits reports nothing, even if it waits in vain.
func (p *Page) probe(ctx context.Context) {
	for backoff.Sleep(ctx, p.opts.ProbeEvery) {
		if !p.hub.watched() {
			continue
		}
		began := time.Now()
		err := p.read(ctx)
		if ctx.Err() == nil {
			p.hub.fail(answering, err, began)
		}
	}
}

func (p *Page) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.ProbeEvery*4/5)
	defer cancel()
	err := p.readSchedules(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	}
	return err
}

var errSilent = errors.New("the cluster does not answer")

// A failure is why the state that is shown may be old, and since when. The zero failure means
// none.
type failure struct {
	Why   string `json:"failure"`
	Since int64  `json:"since"`
}

// fail records an error of a source since then, or, with a nil err, that it works.
func (h *hub) fail(source int, err error, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(source, err, since)
}

// set is fail. A source that keeps failing has failed since its first failure. Caller holds mu.
func (h *hub) set(source int, err error, since time.Time) {
	before := h.failure()
	switch old := h.failures[source]; {
	case err == nil:
		h.failures[source] = failure{}
	case old.Why != "":
		h.failures[source].Why = clip(err.Error())
	default:
		h.failures[source] = failure{clip(err.Error()), millis(since)}
	}
	if now := h.failure(); now != before {
		h.publish("failure", now)
	}
}

// failure is the most serious failure. Caller holds mu.
func (h *hub) failure() failure {
	if h.failures[following].Why != "" {
		return h.failures[following]
	}
	return h.failures[answering]
}
