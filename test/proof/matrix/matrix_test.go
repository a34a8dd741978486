package matrix

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/test/proof/history"
)

// few are the cells that run in go test, on one cluster.
var few = map[string][]string{
	"pause the leader":      {"hold", "readers wait"},
	"move the leader":       {"handover", "set waits"},
	"lose all answers":      {"enqueue", "release", "share", "set", "permit"},
	"reset all connections": {"guarded write", "permits wait"},
	"cut one member":        {"observe", "writer waits"},
}

func all() bool { return os.Getenv("PAWL_MATRIX") == "all" }

func (f fault) duration() time.Duration {
	switch {
	case f.lasts == 0 && !all():
		return 2 * time.Second
	case f.lasts == 0:
		return 3 * time.Second
	}
	return f.lasts
}

// TestMatrix runs the table: a line is a subtest with a cluster of its own.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("real clusters")
	}
	if !all() {
		for _, a := range accesses {
			t.Run(a.name, func(t *testing.T) {
				c := a.cluster(t, fault{})
				cells := 0
				for _, f := range faults {
					for _, p := range phases {
						if slices.Contains(few[f.name], p.name) {
							cells++
							t.Run(f.name, func(t *testing.T) { runCell(t, c, a.of(f), p) })
						}
					}
				}
				assert.Equal(t, 13, cells, "each of the few is in the table")
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
			assert.NoError(t, w.holding.Err())
		}
		_ = w.holding.Release(w.within(t))
		assert.NoError(t, w.bystander.Close(w.within(t)))
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
