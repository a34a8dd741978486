package ui

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/shard"
)

// These bound what is shown of shards, and how long an answer serves all browsers.
const (
	maxShardNames   = 20
	maxShardWorkers = 200
	shardsWithin    = 3 * time.Second
	shardsServe     = 2 * time.Second
)

// A sharedOutView is a name whose shards are shared out, for the browser.
type sharedOutView struct {
	Name      string       `json:"name"`
	Shards    int          `json:"shards"`
	Unowned   int          `json:"unowned"`
	Moving    int          `json:"moving"`
	Unplanned bool         `json:"unplanned"` // a change waits for a plan
	Workers   int          `json:"workers"`   // all of them
	First     []workerView `json:"first"`     // the first ones
}

// A workerView is a worker of shards, for the browser.
type workerView struct {
	Lease  string `json:"lease"` // in hex
	Value  string `json:"value"`
	Weight int    `json:"weight"`
	Held   int    `json:"held"`
	Load   string `json:"load,omitempty"` // as it tells it, and in hundredths of the mean for its weight; "" where nobody measures
	Shards string `json:"shards"`         // those that it has, as ranges
	State  string `json:"state,omitempty"`
}

// A shardsAnswer is what one read of the shards showed.
type shardsAnswer struct {
	Names []sharedOutView `json:"names"`
	More  int             `json:"more"` // names that are not shown
}

// A shardsCache keeps the last answer for as long as it serves, so that many browsers cost the
// cluster one read.
type shardsCache struct {
	mu   sync.Mutex
	read time.Time
	last shardsAnswer
}

// shards answers who works on the shards of the names in scope. Readers wait for one read of the
// cluster, but not for each other's connections.
func (p *Page) shards(w http.ResponseWriter, r *http.Request) {
	all, err := p.sharedOuts(r.Context())
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	answer(w, http.StatusOK, all)
}

func (p *Page) sharedOuts(ctx context.Context) (shardsAnswer, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	if p.shared.read.IsZero() || time.Since(p.shared.read) > shardsServe {
		ctx, cancel := context.WithTimeout(ctx, shardsWithin)
		defer cancel()
		all, err := p.readShards(ctx)
		if err != nil {
			return all, err
		}
		p.shared.read, p.shared.last = time.Now(), all
	}
	return p.shared.last, nil
}

func (p *Page) readShards(ctx context.Context) (out shardsAnswer, err error) {
	all, err := inspect.SharedOuts(ctx, p.client, p.opts.Prefix)
	if err != nil {
		return out, err
	}
	shown := min(len(all), maxShardNames)
	out = shardsAnswer{Names: []sharedOutView{}, More: len(all) - shown}
	for _, s := range all[:shown] {
		for t, err := range shard.Observe(ctx, p.client, s.Name) {
			if err != nil {
				return out, err
			}
			out.Names = append(out.Names, sharedOutOf(s.Name, t))
			break // the first table is the current state
		}
	}
	return out, nil
}

func sharedOutOf(name string, t shard.Table) sharedOutView {
	out := sharedOutView{Name: text(name), Shards: len(t.Shards), Unplanned: t.Unplanned > 0, Workers: len(t.Members), First: []workerView{}}
	out.Unowned, out.Moving = cli.SharedOut(t)
	held, loads := cli.HeldBy(t), cli.Loads(t)
	for _, m := range t.Members[:min(len(t.Members), maxShardWorkers)] {
		out.First = append(out.First, workerView{
			Lease: strconv.FormatInt(m.Lease, 16), Value: clip(string(m.Value)), Weight: m.Weight, Held: m.Held, Load: loads[m.Lease], Shards: clip(held[m.Lease]), State: cli.Particular(m),
		})
	}
	return out
}
