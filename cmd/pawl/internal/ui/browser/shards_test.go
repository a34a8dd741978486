package browser

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/shard"
)

// works is a worker of a name's shards until the test ends.
func (s *site) works(name, who string, n int) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c := s.dial()
	go func() { // ends with ctx
		defer close(ended)
		_ = shard.Run(ctx, c, name, n, shard.Options{Value: []byte(who)}, func(ctx context.Context, _ *shard.Held) error {
			<-ctx.Done()
			return nil
		})
	}()
	s.Cleanup(func() { cancel(); <-ended })
}

func TestItShowsWhoWorksOnWhichShards(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	b := open(t, s.url(), "/", look{})
	b.sees(`document.getElementById("shards").hidden`)
	s.works("orders", "ann <b>&", 4)
	b.sees(`document.querySelector("#shards summary")?.innerText === "orders 4 shards, 1 worker"`)
	b.value(`document.querySelector("#shards summary").click()`)
	b.sees(`[...document.querySelectorAll("#shards tbody td")].map(c => c.innerText).filter((_, i) => i !== 1).join("|") === "ann <b>&|1|4|0-3|plans"`)

	s.works("orders", "ben", 4)
	b.sees(`[...document.querySelectorAll("#shards tbody tr")].map(r => r.cells[0].innerText + r.cells[3].innerText).join("|") === "ann <b>&2|ben2"`)
	b.sees(`document.querySelector("#shards details").open`)
	assert.Empty(t, b.value(faults))
}
