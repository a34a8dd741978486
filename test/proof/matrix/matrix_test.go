package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// cell is a fault and a phase that it strikes in.
type cell struct{ fault, phase string }

// everyday are the cells that run in go test: each fault once, each phase at least twice, and each of
// termsPhases once more, with any fault, on four clusters. Here a fault that outlives a TTL outlives one of 3 s.
var everyday = []struct {
	access string
	cells  []cell
}{
	{"plain", []cell{
		{"no fault", "hold"},
		{"kill a follower", "grant"},
		{"lose all answers", "enqueue"},
		{"stall the leader's disk", "guarded write"},
		{"stall a follower's disk", "set"},
		{"pause a follower for longer than the TTL", "wait"},
		{"isolate the leader", "release"},
		{"replace a member", "close"},
		{"delete the key", "writer waits"},
		{"lose all answers", "AtLeast"},
	}},
	{"plain", []cell{
		{"move the leader", "handover"},
		{"pause the leader", "shards"},
		{"cut one member", "observe"},
		{"fill the quota", "release"},
		{"black hole before one member", "share"},
		{"reset all connections", "permits wait"},
		{"black hole before the leader for longer than the TTL", "hold"},
		{"isolate the leader outbound", "permit"},
		{"overwrite the key", "readers wait"},
		{"move the leader", "job"},
		{"cut one member", "lock-delay"},
		{"remove the leader", "set"},
	}},
	{"secured", []cell{
		{"restart the leader", "wait"},
		{"compact", "guarded write"},
		{"cut all members", "shards"},
		{"hold all requests", "close"},
		{"expire tokens", "readers wait"},
		{"isolate a follower", "writer waits"},
		{"slow network", "set waits"},
		{"isolate a follower for longer than the TTL", "observe"},
		{"revoke the leases", "permit"},
		{"restart the leader", "takeover"},
	}},
	{"secured", []cell{
		{"rotate certificates", "handover"},
		{"authentication off", "enqueue"},
		{"kill the leader", "grant"},
		{"pause a follower", "share"},
		{"restart every member in turn", "set waits"},
		{"isolate the leader inbound", "permit"},
		{"black hole before all members", "handover"},
		{"defragment", "permits wait"},
		{"cut all members for longer than the TTL", "hold"},
		{"pause a follower", "wanted"},
	}},
}

// TestMatrix runs the table: everyday a few cells on each of few clusters, in the proof each line
// with a separate cluster.
func TestMatrix(t *testing.T) {
	t.Parallel()
	if testscale.Proof() {
		for _, a := range accesses {
			for _, f := range faults {
				t.Run(a.name+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					c := a.cluster(t, f)
					for _, p := range phases {
						runCell(t, p.name, c, a.of(f), p)
					}
				})
			}
		}
		return
	}
	for i, group := range everyday {
		t.Run(fmt.Sprint(group.access, i), func(t *testing.T) {
			t.Parallel()
			a := accesses[slices.IndexFunc(accesses, func(a access) bool { return a.name == group.access })]
			var all fault // what each of the group needs
			for _, at := range group.cells {
				f := at.find(t).fault
				all.options.StallableDisk = all.options.StallableDisk || f.options.StallableDisk
				all.options.QuotaBytes = max(all.options.QuotaBytes, f.options.QuotaBytes)
			}
			c := a.cluster(t, all)
			for _, at := range group.cells {
				found := at.find(t)
				if !runCell(t, at.fault+", "+at.phase, c, a.of(found.fault), found.phase) {
					return // the next ones are not to blame for what is left of it
				}
			}
		})
	}
}

// found is a cell's fault and phase.
type found struct {
	fault fault
	phase phase
}

func (at cell) find(t *testing.T) found {
	t.Helper()
	f := slices.IndexFunc(faults, func(f fault) bool { return f.name == at.fault })
	p := slices.IndexFunc(phases, func(p phase) bool { return p.name == at.phase })
	require.True(t, f >= 0 && p >= 0, "%v is in the tables", at)
	return found{faults[f], phases[p]}
}

func TestEachFaultAndEachPhaseRunsEveryday(t *testing.T) {
	n := map[string]int{}
	terms := map[string]bool{}
	for _, p := range termsPhases {
		terms[p.name] = true
	}
	for _, group := range everyday {
		for _, at := range group.cells {
			if n[at.phase]++; !terms[at.phase] {
				n[at.fault]++
			}
		}
	}
	for _, f := range faults {
		assert.Equal(t, 1, n[f.name], f.name)
	}
	for _, p := range phases {
		assert.GreaterOrEqual(t, n[p.name], map[bool]int{false: 2, true: 1}[terms[p.name]], p.name)
	}
	assert.Len(t, n, len(faults)+len(phases))
}

// runCell runs a cell, and says how to repeat it if it fails.
func runCell(t *testing.T, name string, c *etcdtest.Cluster, f fault, p phase) bool {
	return t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			if t.Failed() {
				again := ""
				if testscale.Proof() {
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

// survives checks that err is nil, which means that a fault that takes nothing from anybody has
// taken nothing. It reports whether it is.
//
// This is all that a machine is forgiven, and nowhere else: a process that is not scheduled for
// long enough loses its sessions, and is right to, so that it keeps them cannot be demanded of it.
// What shows that is the record of this process's own pulse: it was late, in total, by more than a
// fifth of the TTL in this cell. The members are processes of the same machine, and as late. What
// concerns safety is checked whoever was late.
func (w *fixture) survives(t *testing.T, err error, what string) bool {
	t.Helper()
	if err == nil {
		return true
	}
	if late := w.pulse.Between(0, w.rec.Now()); late > w.fault.ttl()/5 {
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
	func() {
		defer func() { <-w.healed }()
		struck := false
		defer func() {
			if !struck {
				close(w.healed) // it failed before
			}
		}()
		during(func() {
			w.struckAt = w.rec.Now()
			w.fault.inject(t, w)
			struck = true
			go func() { // ends when the fault is healed
				defer close(w.healed)
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
	if !w.fault.loses || !w.fault.outlives {
		if w.survives(t, w.bystander.Err(), "a session that the fault does not concern") &&
			w.survives(t, w.holding.Err(), "a lock of that session") {
			w.survives(t, w.holding.Release(w.within(t)), "its release")
			w.survives(t, w.bystander.Close(w.within(t)), "that session's end")
		}
	}
	for _, p := range []*person{w.a, w.b, w.by} {
		_ = p.client.Close() // a grant whose answer was lost is left to expire, which the error says
	}
	w.empty(t)
	ops := w.rec.Ops()
	history.Check(t, w.excused(ops, w.struckAt))
	w.seen.caughtUp(t, w)
	w.seen.check(t, ops, w.fault.ttl())
	w.seen.stayed(t, w.stays)
}

// empty waits until no key of a lock or a session, and no lease, is left. What
// could not be removed at once goes with its lease.
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
	}, testscale.Hang, 50*time.Millisecond, "left: %q", &left)
}
