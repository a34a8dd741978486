package ui

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// The sources of failures.
const (
	following = iota
	answering
)

const (
	probeEvery  = 5 * time.Second
	probeWithin = 4 * time.Second
)

// probe asks the cluster now and then, while somebody looks: a follower says
// nothing while it waits, and would say nothing if it waited in vain.
func (p *Page) probe(ctx context.Context) {
	for sleep(ctx, probeEvery) {
		if !p.feed.watched() {
			continue
		}
		asked := time.Now()
		err := p.ask(ctx)
		if ctx.Err() == nil {
			p.feed.fail(answering, err, asked)
		}
	}
}

func (p *Page) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	_, err := inspect.Read(ctx, p.client, inspect.Scope{Name: "probe"})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	case cluster.IsPermissionDenied(err): // so it answers
		return nil
	}
	return err
}

var errSilent = errors.New("the cluster does not answer")

// A failure is why what is shown may be old, and since when that is so. The zero failure is none.
type failure struct {
	Why   string `json:"trouble"`
	Since int64  `json:"since"`
}

// fail notes an error of a source since then, or with a nil err, that it has none.
func (f *feed) fail(source int, err error, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(source, err, since)
}

// set is fail. A source that goes on failing does so since its first failure. Caller holds mu.
func (f *feed) set(source int, err error, since time.Time) {
	before := f.failure()
	switch old := f.failures[source]; {
	case err == nil:
		f.failures[source] = failure{}
	case old.Why != "":
		f.failures[source].Why = clip(err.Error())
	default:
		f.failures[source] = failure{clip(err.Error()), millis(since)}
	}
	if now := f.failure(); now != before {
		f.publish("trouble", now)
	}
}

// failure is the gravest. Caller holds mu.
func (f *feed) failure() failure {
	if f.failures[following].Why != "" {
		return f.failures[following]
	}
	return f.failures[answering]
}
