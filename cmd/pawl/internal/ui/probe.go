package ui

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// Who can be in trouble.
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
		err := p.ask(ctx)
		if ctx.Err() == nil {
			p.feed.trouble(answering, err)
		}
	}
}

func (p *Page) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	_, err := inspect.Read(ctx, p.client, inspect.Scope{Name: "probe"})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the cluster has not answered for %v", probeWithin)
	case cluster.IsPermissionDenied(err): // so it answers
		return nil
	}
	return err
}

// trouble tells that something is wrong, or with a nil err, that it is not.
func (f *feed) trouble(who int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(who, err)
}

// set is trouble. Caller holds mu.
func (f *feed) set(who int, err error) {
	before := f.wrong()
	f.troubles[who] = ""
	if err != nil {
		f.troubles[who] = clip(err.Error())
	}
	if now := f.wrong(); now != before {
		f.publish("trouble", map[string]string{"trouble": now})
	}
}

// wrong is what is wrong; "": nothing. Caller holds mu.
func (f *feed) wrong() string {
	if f.troubles[following] != "" {
		return f.troubles[following]
	}
	return f.troubles[answering]
}
