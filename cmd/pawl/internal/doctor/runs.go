package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// runs checks the records of runs. A user that may not read them has none.
func (d *doctor) runs(ctx context.Context, c *pawl.Client, prefix string) error {
	all, err := inspect.Schedules(ctx, c, prefix)
	if err != nil && !cluster.IsPermissionDenied(err) {
		return err
	}
	now, before := time.Now(), d.counts[isWrong]
	for _, s := range all {
		set := "pawl runs --set TIME " + cli.ShellName(s.Name)
		switch ahead := s.Ahead(now); {
		case s.At.IsZero():
			d.wrong("run", s.Key, fmt.Sprintf("holds no time, but %.40q: %q does not run", s.Foreign, s.Name), "say when it ran last: "+set)
		case ahead > 0:
			d.wrong("run", s.Key, fmt.Sprintf("is of %s, which is %s ahead of this machine's clock: %q does not run until then", s.At.UTC().Format(time.RFC3339), cli.Span(ahead), s.Name),
				"correct the clock that is wrong, then say when it ran last: "+set)
		}
	}
	if len(all) > 0 && d.counts[isWrong] == before {
		d.ok("run", "", "%s, none ahead of this machine's clock", cli.Count(len(all), "record"))
	}
	return nil
}
