//go:build unix

package fleet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// A Fleet is one run.
type Fleet struct {
	Store   string // names the opener
	Open    Opener // the same, for the parent
	Address string
	Guard   bool
	Workers int           // 8 if 0
	For     time.Duration // at least; longer if too little happened to show anything
	TTL     time.Duration // of leases at first, 120 ms if 0; longer if nobody finishes within it
	Cut     func()        // cuts the workers from the store; nil if there is no connection to cut
	Issuer  Issuer        // counts if nil
	Seed    uint64
	Readers Readers
}

// A Result is the result of a run.
type Result struct {
	Acked, Lost        int
	Refused, Unknown   int
	Needless, Stale    int // refused to one who holds; admitted after a later holder that conflicts
	Stops, Kills, Cuts int
	Expired            int // leases
	History            []fencetest.Op
	Missing            []string // some of the lost
	TTL                time.Duration
}

// String is the result on one line.
func (r Result) String() string {
	return fmt.Sprintf("%d writes acknowledged, %d lost; %d operations refused, %d of them needlessly, %d admitted too late, %d with unknown outcome; %d stops, %d kills, %d cuts, %d leases expired, of %v at the end",
		r.Acked, r.Lost, r.Refused, r.Needless, r.Stale, r.Unknown, r.Stops, r.Kills, r.Cuts, r.Expired, r.TTL)
}

const resources = 3

// Run runs the fleet and returns what was lost.
func (f Fleet) Run(t testing.TB) Result {
	t.Helper()
	if f.Workers == 0 {
		f.Workers = 8
	}
	if f.TTL == 0 {
		f.TTL = 120 * time.Millisecond
	}
	dir, err := os.MkdirTemp("", "fleet") // short: it is in a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if f.Issuer == nil {
		f.Issuer = &counter{}
	}
	auth, err := newAuthority(filepath.Join(dir, "authority"), f.TTL, f.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{fleet: f, dir: dir, rnd: rand.New(rand.NewPCG(f.Seed, 1))}
	for i := range f.Workers {
		y.workers = append(y.workers, y.start(t, i))
	}
	y.torment(t, auth)
	for _, w := range y.workers {
		_ = w.stdin.Close()
		w.signal(syscall.SIGCONT)
	}
	for _, w := range y.workers {
		w.finish()
	}
	for _, w := range y.all {
		if code := w.cmd.ProcessState.ExitCode(); code > 0 { // a data race too
			t.Errorf("a worker ended with status %d:\n%s", code, w.err.String())
		}
	}
	auth.close()
	_, y.result.Expired, y.result.TTL = auth.seen()
	y.collect(t)
	return y.result
}

// A yard is a run in progress.
type yard struct {
	fleet   Fleet
	dir     string
	rnd     *rand.Rand
	workers []*process
	all     []*process // those that were killed, too
	logs    []string
	result  Result
}

// These say what must have happened in a run, so that it shows something, and how much longer a run may
// take for it.
const (
	minGranted = 40
	minExpired = 8
	overtime   = 3 * time.Minute
)

// torment stops, kills and cuts until the time has passed.
func (y *yard) torment(t testing.TB, auth *authority) {
	var resumed sync.WaitGroup
	defer resumed.Wait()
	for began := time.Now(); ; wait(time.Duration(5+y.rnd.IntN(30)) * time.Millisecond) {
		granted, expired, ttl := auth.seen()
		over := time.Since(began) - y.fleet.For
		if over > overtime || over > 0 && granted >= minGranted && expired >= minExpired {
			return
		}
		victim := y.rnd.IntN(len(y.workers))
		if holders := auth.holders(); len(holders) > 0 && y.rnd.IntN(3) > 0 {
			victim = holders[y.rnd.IntN(len(holders))]
		}
		switch n := y.rnd.IntN(20); {
		case n < 13:
			y.result.Stops++
			w, d := y.workers[victim], time.Duration(float64(ttl)*(0.3+2*y.rnd.Float64()))
			w.signal(syscall.SIGSTOP)
			resumed.Go(func() { // ends after the pause
				wait(d)
				w.signal(syscall.SIGCONT)
			})
		case n < 16:
			y.result.Kills++
			y.workers[victim].kill()
			y.workers[victim] = y.start(t, victim)
		case n < 18:
			y.result.Cuts++
			auth.cut(y.rnd)
		default:
			if y.fleet.Cut != nil {
				y.result.Cuts++
				y.fleet.Cut()
			}
		}
	}
}
