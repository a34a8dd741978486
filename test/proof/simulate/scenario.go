package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// server is the server of a scenario.
type server interface {
	endpoints() []string
	options(client int) []grpc.DialOption // how that client connects to it
	strike(w *scenario, s Strike) (heal func())
	calm() // ends the remaining faults
	left() []string
	close()
}

// scenario is one run of a plan.
type scenario struct {
	plan   Plan
	server server
	rec    *history.Recorder
	truth  *truth
	gate   fencing.Gate
	jobs   jobs

	mu        sync.Mutex
	bad       []string
	observers []*events
	ended     chan struct{} // closed when the faults have ended
}

// lean are options that make a connection in memory cost less. Its windows are fixed, so that no
// pings measure the bandwidth, and its buffers are small.
func lean() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(1 << 20), grpc.WithStaticConnWindowSize(1 << 20),
		grpc.WithReadBufferSize(4 << 10), grpc.WithWriteBufferSize(4 << 10),
	}
}

func (w *scenario) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

func (w *scenario) config(client int) pawl.Config {
	return pawl.Config{Endpoints: w.server.endpoints(), DialOptions: w.server.options(client), Observer: w.newEvents(client)}
}

// Run runs the scenario of a plan in a bubble, and returns what was wrong with it.
func Run(t *testing.T, plan Plan, start func(t *testing.T, w *scenario) server) (report string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := history.Since()
		w := &scenario{plan: plan, rec: history.NewRecorder(clock), truth: newTruth(clock), ended: make(chan struct{})}
		w.server = start(t, w)
		defer w.server.close()
		report = w.run(t.Name())
	})
	return report
}

func (w *scenario) run(test string) string {
	var actors []*actor
	var acting, striking sync.WaitGroup
	for i := range w.plan.Clients {
		a := &actor{w: w, number: i, r: rand.New(rand.NewPCG(w.plan.Seed, uint64(i)+2))}
		actors = append(actors, a)
		acting.Go(a.run) // ends some time after w.ended
	}
	for _, s := range w.plan.Strikes {
		striking.Go(func() { // ends when its fault does
			time.Sleep(s.At)
			from := w.truth.now()
			heal := w.server.strike(w, s)
			time.Sleep(s.Lasts)
			heal()
			if s.Kind == "freeze" && w.plan.Members == 1 { // otherwise another member shows it, to which renewals go in turn
				w.truth.answeredStale(from, w.truth.now())
			}
		})
	}
	workers := newTeam(w)
	striking.Wait()
	w.server.calm()
	close(w.ended)
	acting.Wait()
	w.afterwards(actors, workers)
	bad, rest := w.truth.validate(w.rec.Ops(), w.plan.TTL)
	w.bad = append(append(w.bad, bad...), w.truth.unkept(w.rec.Ops(), w.plan.LockDelay)...)
	w.bad = append(w.bad, w.jobs.check(w.plan.RecordFirst)...)
	report := ""
	for _, b := range w.bad {
		report += b + "\n"
	}
	report += history.Report(fmt.Sprintf("%s-%d", test, w.plan.Seed), rest)
	if report != "" && os.Getenv("PAWL_TRACE") != "" {
		report += w.trace()
	}
	return report
}

// trace is all that happened, in order.
func (w *scenario) trace() string {
	type line struct {
		at   time.Duration
		text string
	}
	var all []line
	for _, o := range w.rec.Ops() {
		all = append(all, line{o.Call, o.String()})
	}
	for _, l := range w.truth.lives {
		all = append(all, line{l.from, fmt.Sprintf("%s: created at %d", l.key, l.created)})
		if l.to >= 0 {
			all = append(all, line{l.to, l.key + ": deleted"})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	text := ""
	for _, l := range all {
		text += fmt.Sprintf("%v %s\n", l.at, l.text)
	}
	return text
}

// afterwards makes every client acquire a lock once more, all at once, and close, and the workers
// share the shards out.
func (w *scenario) afterwards(actors []*actor, workers *team) {
	var calm sync.WaitGroup
	if w.plan.Workers > 0 {
		calm.Go(workers.settle)
	}
	for _, a := range actors {
		calm.Go(a.last) // five turns at most
	}
	calm.Wait()
	for _, e := range w.observers {
		e.close()
	}
	time.Sleep(2*w.plan.life() + 30*time.Second)
	if left := w.server.left(); len(left) > 0 {
		w.fail("left in etcd: %q", left)
	}
}
