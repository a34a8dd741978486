package pawltest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
)

// Storage is code that keeps a value for the holders of a lock and should refuse a stale holder.
// Check says whether it does.
//
// ctx carries the holder's token, as the context of lock.Held.Do does: fencing.FromContext. Two
// goroutines may call the functions at a time. A function returns nil if the storage has done what
// was asked, and an error if it has not, or if nobody knows.
type Storage struct {
	// Write replaces the value. It is required.
	Write func(ctx context.Context, value string) error

	// Read returns the value, "" if none was ever written, and makes the storage refuse older
	// holders. If it is nil, the storage has no such read, and Check judges only what Write
	// returns.
	Read func(ctx context.Context) (string, error)

	// Runs is how often two holders meet. 0 means 300.
	Runs int

	// Seed determines the random choices. Runs with the same Seed make the same choices.
	Seed uint64
}

const defaultRuns = 300

// Check runs a simulation, and fails the test t, at the first fault, if the storage admitted a
// write or a read of a holder after one of the next holder, or refused the present holder.
//
// In each run, one holder acquires a lock of an etcd in memory, and writes. Then it loses the lock
// without noticing, as if its process was stopped, and another one acquires it. Both write and read, in
// each order of their calls. Once all orders were tried, further runs choose at random: some calls
// overlap, and some of the lost holder's contexts end in the middle of a call, as that of Held.Do does
// at the loss. A failure is reported with the order of the steps and with what each call did. In that
// order, A is the lost holder, B the other one, and AB a step of both at once.
//
// A call of Storage is one step, unless it calls Pause. Check returns when all calls have returned.
func (s Storage) Check(t testing.TB) {
	t.Helper()
	if s.Write == nil {
		t.Fatal("pawltest: storage: Write is nil")
	}
	sim := newSimulation(t, s)
	turns := sim.run(t, func(int) choice { return choice{} }, 0)
	all := 0 // orders that were tried one by one
	if turns < 16 && 1<<turns <= sim.runs {
		all = 1 << turns
	}
	for n := 1; n < sim.runs && !t.Failed(); n++ {
		if n < all {
			sim.run(t, func(turn int) choice { return choice{who: n >> turn & 1} }, 0)
			continue
		}
		rnd := rand.New(rand.NewPCG(s.Seed, uint64(n)))
		cancelAt := rnd.IntN(2 * turns) // half of the runs end before it
		sim.run(t, func(int) choice { return choice{rnd.IntN(2), rnd.IntN(4) == 0} }, cancelAt)
	}
}

// Pause ends a step of a Storage's call. The other holder may then make its steps, or the call's context
// may end. Call it with the call's context and in its goroutine, where a process could be stopped or a
// message could be late: in a test's database driver, transport, or hook. With any other context it does
// nothing.
func Pause(ctx context.Context) {
	if h, ok := ctx.Value(holderKey{}).(*holder); ok {
		h.pause()
	}
}

type simulation struct {
	Storage
	runs    int
	etcd    *Cluster
	clients [2]*pawl.Client
	number  int
}

func newSimulation(t testing.TB, s Storage) *simulation {
	sim := &simulation{Storage: s, runs: s.Runs, etcd: New(t)}
	if sim.runs <= 0 {
		sim.runs = defaultRuns
	}
	for i := range sim.clients {
		sim.clients[i] = sim.etcd.Client(t, pawl.Config{})
	}
	return sim
}

// choice is who makes the next step: the holder of that number, unless it cannot, or both.
type choice struct {
	who  int
	both bool
}

// run has two holders meet once, and returns how many turns they had.
func (sim *simulation) run(t testing.TB, choose func(turn int) choice, cancelAt int) (turns int) {
	t.Helper()
	sim.number++
	log := &history{}
	holders := [2]*holder{}
	for i, client := range sim.clients {
		held, err := lock.New(client, "storage", lock.Options{}).Acquire(t.Context())
		if err != nil {
			t.Fatalf("pawltest: storage: %v", err)
		}
		defer held.Release(context.Background()) //nolint:errcheck // the first one is lost
		ctx, end := context.WithCancelCause(context.WithoutCancel(held.Context()))
		defer end(nil)
		h := newHolder(ctx, end, sim, log, i, held.Token())
		holders[i] = h
		if i == 0 { // its first write, while it has the lock
			h.alone, h.holds = true, true
			h.write("first")
			h.alone, h.holds, h.cancelAt = false, false, cancelAt
			sim.etcd.Revoke(held.Session().ID())
		}
	}
	order := steps(holders, choose)
	holders[1].alone = true
	holders[1].read()
	if err := log.verdict(); err != nil {
		t.Errorf("pawltest: storage: in run %d with seed %d, where A writes once and is lost, then B acquires the lock, and then their steps are %v:\n%v\n%v", sim.number, sim.Seed, order, err, log)
	}
	return len(order)
}
