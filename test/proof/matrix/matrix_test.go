package matrix

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/testkit/lane"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// everyday are the cells that run in go test: each phase once, each with another fault, half of
// them on a cluster of either access. The other faults strike in the proof alone.
var everyday = map[string]map[string]string{
	"plain": {
		"grant":        "kill a follower",
		"enqueue":      "lose all answers",
		"handover":     "move the leader",
		"hold":         "pause the leader",
		"observe":      "cut one member",
		"set":          "stall a follower's disk",
		"share":        "black hole before one member",
		"permits wait": "reset all connections",
	},
	"secured": {
		"wait":          "restart the leader",
		"guarded write": "compact",
		"release":       "cut all members",
		"close":         "hold all requests",
		"permit":        "delete the key",
		"readers wait":  "expire tokens",
		"writer waits":  "isolate a follower",
		"set waits":     "slow network",
	},
}

// duration is how long f lasts.
func (f fault) duration() time.Duration {
	if f.lasts == 0 {
		return lane.Of(time.Second, 3*time.Second)
	}
	return f.lasts
}

// TestMatrix runs the table: in the proof a line is a subtest with a cluster of its own.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("real clusters")
	}
	if !lane.Proof() {
		for _, a := range accesses {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				c := a.cluster(t, fault{options: etcdtest.ClusterOptions{StallableDisk: true}})
				cells := 0
				for _, f := range faults {
					for _, p := range phases {
						if everyday[a.name][p.name] == f.name {
							cells++
							t.Run(f.name, func(t *testing.T) { runCell(t, c, a.of(f), p) })
						}
					}
				}
				assert.Equal(t, len(everyday[a.name]), cells, "each of them is in the table")
			})
		}
		return
	}
	for _, a := range accesses {
		for _, f := range faults {
			t.Run(a.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				c := a.cluster(t, f)
				for _, p := range phases {
					runCell(t, c, a.of(f), p)
				}
			})
		}
	}
}

func TestEachPhaseRunsEveryday(t *testing.T) {
	for _, p := range phases {
		n := 0
		for _, of := range everyday {
			if of[p.name] != "" {
				n++
			}
		}
		assert.Equal(t, 1, n, p.name)
	}
}

// runCell runs a cell, and says how to repeat it if it fails.
func runCell(t *testing.T, c *etcdtest.Cluster, f fault, p phase) {
	t.Run(p.name, func(t *testing.T) {
		t.Cleanup(func() {
			if t.Failed() {
				again := ""
				if lane.Proof() {
					again = "PAWL_PROOF=1 "
				}
				var at []string
				for part := range strings.SplitSeq(t.Name(), "/") {
					at = append(at, "^"+part+"$")
				}
				t.Logf("again with: %sgo test -count=1 -run \"%s\" ./test/proof/matrix", again, strings.Join(at, "/"))
			}
		})
		newWorld(t, c, f, nameOf(f.name+"."+p.name)).run(t, p)
	})
}

// tooLate is by how much this process may be late in a cell, in total, for the cell to show whether
// a session survives its fault. The members are processes of the same machine, and as late.
const tooLate = ttl / 5

// survives checks that err is nil: that a fault that takes nothing from anybody has taken
// nothing. It reports whether it is.
//
// This is all that a machine is forgiven. A process that is not scheduled for long enough loses
// its sessions, and is right to: that it keeps them cannot be demanded of it. So it is demanded in
// the proof alone, and there only where the record of this process's own pulse shows that it ran.
// In the bubbles of internal/session and of package simulate, whose clock waits for everybody, it
// is demanded always; and so is here what concerns safety, whoever was late.
func (w *fixture) survives(t *testing.T, err error, what string) bool {
	t.Helper()
	if err == nil {
		return true
	}
	if late := w.pulse.Between(0, w.rec.Now()) / 2; !lane.Proof() || late > tooLate {
		t.Logf("not demanded, this process itself was late by %v: %s: %v", late, what, err)
		return false
	}
	return assert.NoError(t, err, what)
}

// nameOf is a lock's name for a cell.
func nameOf(cell string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '\'' || r == ',' {
			return '-'
		}
		return r
	}, cell)
}

// run runs the cell and checks what came of it.
func (w *fixture) run(t *testing.T, p phase) {
	during := p.before(t, w)
	healed := make(chan struct{})
	func() {
		defer func() { <-healed }()
		struck := false
		defer func() {
			if !struck {
				close(healed) // it failed before
			}
		}()
		during(func() {
			w.fault.inject(t, w)
			struck = true
			go func() { // ends when the fault is healed
				defer close(healed)
				time.Sleep(w.fault.duration())
				w.heal(t)
			}()
		})
	}()
	w.after(t)
}

// heal ends the fault.
func (w *fixture) heal(t *testing.T) {
	w.c.Heal(t)
	if w.fault.heal != nil {
		w.fault.heal(t, w)
	}
}

// after checks what must be so when the fault is healed: the lock can be had,
// the bystander has felt nothing, the history can have been, and nothing is left.
func (w *fixture) after(t *testing.T) {
	for _, p := range []*person{w.a, w.b} {
		s := p.session(t)
		h := p.hold(t, s)
		assert.NoError(t, p.once(h))
		assert.NoError(t, p.release(t, h))
	}
	close(w.stop)
	w.bg.Wait()
	if !w.fault.loses || w.fault.lasts < ttl {
		if w.survives(t, w.bystander.Err(), "a session that the fault does not concern") {
			w.survives(t, w.holding.Err(), "a lock of that session")
		}
		_ = w.holding.Release(w.within(t))
		_ = w.bystander.Close(w.within(t)) // what it leaves is found by empty
	}
	for _, p := range []*person{w.a, w.b, w.by} {
		_ = p.client.Close() // a grant whose answer was lost is left to expire, which the error says
	}
	w.empty(t)
	ops := w.rec.Ops()
	history.Check(t, ops)
	w.seen.caughtUp(t, w)
	w.seen.check(t, ops, ttl)
}

// empty waits until no key of a lock or a session, and no lease, is left. What
// could not be removed at once has its lease's time.
func (w *fixture) empty(t *testing.T) {
	t.Helper()
	var left []string
	require.Eventually(t, func() bool {
		left = nil
		ctx := w.within(t)
		for _, prefix := range []string{w.name, "//pawl/"} {
			r, err := w.oracle.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				left = append(left, err.Error())
				continue
			}
			for _, kv := range r.Kvs {
				left = append(left, string(kv.Key))
			}
		}
		if r, err := w.oracle.Leases(ctx); err != nil || len(r.Leases) > 0 {
			left = append(left, fmt.Sprint("leases: ", r, err))
		}
		return len(left) == 0
	}, 2*ttl, 50*time.Millisecond, "left: %q", &left)
}
