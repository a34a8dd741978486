package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/reclaim"
)

// reclaim checks the directory in which sessions leave files for the case of their process's death.
func (d *doctor) reclaim(path string) {
	l, err := reclaim.LookAt(path)
	if err != nil {
		d.wrong("reclaim", path, err.Error(), "what is held by processes that are killed stays taken until their leases expire: give them a directory of their user, with mode 0700, on tmpfs")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l.Refused)) {
		d.odd("reclaim", path+"/"+name, l.Refused[name].Error(), "nothing is reclaimed by it; if it is older than this machine's boot, or a copy: rm "+cli.ShellName(path+"/"+name))
	}
	if l.Dead > 0 {
		d.odd("reclaim", path, fmt.Sprintf("%s of dead processes, whose leases were not revoked yet", cli.Count(l.Dead, "file")),
			"the next session of the directory does that, and pawl reap at once: is one running, as the same user, with the same cluster and namespace?")
		return
	}
	d.ok("reclaim", path, "%s of processes that live", cli.Count(l.Alive, "file"))
}
