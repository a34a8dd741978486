package ui

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// Options are the options of a Page.
type Options struct {
	Prefix    string       // of the names that are shown
	Namespace string       // of the client; it is shown
	Cluster   string       // which cluster it is, for people to read
	Hosts     []string     // host names that the page is served under, beside localhost and addresses
	Token     string       // must come with a request to break; if "", nothing can be broken
	By        string       // who breaks, written into the mark
	Logger    *slog.Logger // silent if nil

	// ProbeEvery is how often the cluster is asked whether it answers, which it has to do within
	// four fifths of that. 0 means 5 s.
	ProbeEvery time.Duration
}

// A Page is a handler that follows a namespace.
type Page struct {
	client *pawl.Client
	opts   Options
	hub    *hub
	shared shardsCache
	mux    http.Handler
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Open reads the scope, follows it from there, and serves it, until the caller closes the Page.
func Open(ctx context.Context, client *pawl.Client, o Options) (*Page, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.ProbeEvery = cmp.Or(o.ProbeEvery, probeEvery)
	f, err := inspect.Follow(ctx, client, inspect.Scope{Prefix: o.Prefix})
	if err != nil {
		return nil, err
	}
	p := &Page{client: client, opts: o, hub: newHub(o)}
	p.mux = p.handler()
	if err := p.readSchedules(ctx); err != nil {
		f.Close()
		return nil, err
	}
	living, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.tasks.Go(func() { p.keepFollowing(living, f) }) // ends with Close
	p.tasks.Go(func() { p.probe(living) })            // ends with Close
	return p, nil
}

// ServeHTTP serves the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Close ends the follower, and all streams.
func (p *Page) Close() {
	p.cancel()
	p.hub.close()
	p.tasks.Wait()
}

// These are the pace of changes, and of new tries after a failure.
const (
	pace     = 100 * time.Millisecond
	minPause = time.Second
	maxPause = 15 * time.Second
)

// keepFollowing follows until ctx ends, again after each failure.
func (p *Page) keepFollowing(ctx context.Context, f *inspect.Follower) {
	for wait := (backoff.Backoff{First: minPause, Most: maxPause}); ; {
		if f != nil {
			began := time.Now()
			err := p.follow(ctx, f)
			f.Close()
			if ctx.Err() != nil {
				return
			}
			if time.Since(began) > maxPause {
				wait.Reset()
			}
			p.opts.Logger.Warn("ui: following has ended, and begins again", "err", err)
			p.hub.fail(following, err, time.Now())
		}
		if !wait.Sleep(ctx) {
			return
		}
		var err error
		if f, err = inspect.Follow(ctx, p.client, inspect.Scope{Prefix: p.opts.Prefix}); err != nil {
			f = nil
			p.hub.fail(following, err, time.Now())
		}
	}
}

// follow publishes what f reports. Changes that arrive together are sent together.
func (p *Page) follow(ctx context.Context, f *inspect.Follower) error {
	p.hub.begin(f.Snapshot(), time.Now())
	for {
		events, err := f.Next(ctx)
		if err != nil {
			return err
		}
		p.hub.apply(events, f.Snapshot())
		if !backoff.Sleep(ctx, pace) {
			return context.Cause(ctx)
		}
	}
}
