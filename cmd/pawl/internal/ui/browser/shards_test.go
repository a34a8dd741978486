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
	// No worker tells a load within a test's time.
	b.value(`import("./shards.js").then(({ Shards }) => {
		const section = document.createElement("section"), body = document.createElement("div")
		section.id = "told"
		section.append(body)
		document.body.append(section)
		const worker = (value, load) => ({ lease: "1", value, weight: 1, held: 2, load, shards: "0-1" })
		new Shards(section, body, {}).show(JSON.stringify({ more: 0, names: [{ name: "told", shards: 4, workers: 2, first: [worker("ann", "12 (150 %)"), worker("ben", "4 (50 %)")] }] }))
	})`)
	b.sees(`[...document.querySelectorAll("#told th")].map(c => c.textContent).join("|") === "Worker|Lease|Weight|Has|Load|Shards|State"`)
	b.sees(`[...document.querySelectorAll("#told tbody tr")].map(r => r.cells[4].textContent).join("|") === "12 (150 %%)|4 (50 %%)"`)
	assert.Empty(t, b.value(faults))
}
