package matrix

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// tooLate is by how much this process may be late in a cell, in total, for the cell to show whether
// a session survives its fault. The members are processes of the same machine, and as late.
const tooLate = ttl / 5

// runs is how often a cell runs at most, until it shows that.
const runs = 3

// runCell runs a cell, again if it has to.
func runCell(t *testing.T, c *etcdtest.Cluster, f fault, p phase) {
	for run := 1; ; run++ {
		name, unclear := p.name, false
		if run > 1 {
			name = fmt.Sprintf("%s, run %d", p.name, run)
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c, f, nameOf(f.name+"."+name))
			w.last = run == runs
			w.run(t, p)
			unclear = w.unclear
		})
		if !unclear {
			return
		}
	}
}

// survives checks that err is nil: that a fault that takes nothing from anybody has taken
// nothing. If it is not, and this process was too late for that to mean anything, the cell runs
// again instead of failing; not after its last run. It reports whether err is nil.
func (w *fixture) survives(t *testing.T, err error, what string) bool {
	t.Helper()
	if err == nil {
		return true
	}
	late := w.pulse.Between(0, w.rec.Now()) / 2
	if late > tooLate && !w.last {
		w.unclear = true
		t.Logf("once more, because this process itself was late by %v: %s: %v", late.Round(time.Millisecond), what, err)
		return false
	}
	return assert.NoError(t, err, "%s; this process itself was late by %v", what, late)
}
